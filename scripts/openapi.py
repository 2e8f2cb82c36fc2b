"""Write the OpenAPI document of the HTTP server to console/openapi.json: the console's types are
made from it.
"""

from __future__ import annotations

import json
from pathlib import Path

from toolcrib.transports.http.openapi import openapi_document

DOCUMENT = Path(__file__).parent.parent / "console" / "openapi.json"


def document_text() -> str:
    """The document, as the file has it."""
    return json.dumps(openapi_document(), indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    DOCUMENT.write_text(document_text(), encoding="utf-8")
