"""Take a picture of every page of the console, for the documentation: docs/screenshots/*.png.

python scripts/screenshots.py            needs the built page, Debian's Chromium and Pillow

A real server has played the same story as for the tests of the console. Each page is taken at the
width of a phone and of a desktop; some also in the dark theme.
"""

import sys
import tempfile
from io import BytesIO
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from PIL import Image  # noqa: E402
from playwright.sync_api import Page  # noqa: E402

from tests.console.browser_page import (  # noqa: E402
    DESKTOP,
    PHONE,
    BrowserPages,
    Theme,
    calm,
    chromium,
    settle,
)
from tests.console.crib import PROJECT, WORKSHOP, crib_in  # noqa: E402
from tests.console.story import play_story  # noqa: E402

FOLDER = ROOT / "docs" / "screenshots"
IN_THE_DARK = ("inbox", "session", "activity")
NOTES = f"""
mcp_servers:
  notes:
    command: {sys.executable}
    args: [{ROOT / "examples" / "gateway" / "notes_server.py"}]
"""
"""A mounted MCP server, for its page."""
TALLEST = 1_800
COLOURS = 256
MOST_BYTES = 4_000_000
"""What all pictures together may weigh: they are in the repository."""


def save(page: Page, name: str) -> int:
    """Save all that the page shows, up to a height, with few colours; returns the size in bytes."""
    height = int(page.evaluate("document.documentElement.scrollHeight"))
    width = (page.viewport_size or {"width": 0})["width"]
    # Not a picture of more than the window: what keeps its place in the window would end there.
    page.set_viewport_size({"width": width, "height": min(height, TALLEST)})
    calm(page)
    picture = Image.open(BytesIO(page.screenshot(animations="disabled")))
    target = FOLDER / f"{name}.png"
    picture.convert("RGB").quantize(COLOURS).save(target, optimize=True)
    return target.stat().st_size


def take(page: Page, name: str, path: str, theme: Theme) -> int:
    """Both pictures of a page in a theme; returns their size."""
    page.emulate_media(color_scheme=theme)
    suffix = "-dark" if theme == "dark" else ""
    size = 0
    for width, height in (DESKTOP, PHONE):
        page.set_viewport_size({"width": width, "height": height})
        page.goto(path)
        if name == "sign-in":
            page.get_by_role("heading", level=1).wait_for()
        else:
            settle(page)
        # Charts and the colours of code come after the page.
        calm(page)
        size += save(page, f"{name}-{width}{suffix}")
    print(f"{name}{suffix}: {path}")
    return size


def main() -> None:
    """Take them all."""
    FOLDER.mkdir(exist_ok=True)
    for old in FOLDER.glob("*.png"):
        old.unlink()
    size = 0
    with (
        tempfile.TemporaryDirectory() as folder,
        chromium() as browser,
        crib_in(Path(folder, "workshop"), tools=WORKSHOP, project=PROJECT + NOTES) as crib,
    ):
        story = play_story(crib, is_hostile=False)
        pages = BrowserPages(browser)
        signed_in = pages.open(crib, "ada", "/inbox")
        for name, path in story.paths.items():
            size += take(signed_in, name, path, "light")
            if name in IN_THE_DARK:
                size += take(signed_in, name, path, "dark")
        size += take(
            pages.open(crib, None, "/sign-in", allow=["401"]), "sign-in", "/sign-in", "light"
        )
        pages.close()
    print(f"{len([*FOLDER.glob('*.png')])} pictures, {size // 1000} kB")
    if size > MOST_BYTES:
        sys.exit(f"together they have more than {MOST_BYTES // 1000} kB; take fewer, or smaller")


if __name__ == "__main__":
    main()
