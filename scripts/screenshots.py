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
    chromium,
    settle,
)
from tests.console.crib import Crib, crib_in  # noqa: E402
from tests.console.story import play_story  # noqa: E402

FOLDER = ROOT / "docs" / "screenshots"
IN_THE_DARK = ("inbox", "session", "activity")
TALLEST = 1_800
COLOURS = 256
MOST_BYTES = 4_000_000
"""What all pictures together may weigh: they are in the repository."""


def save(page: Page, name: str) -> int:
    """Save what the page shows, up to a height, with few colours; returns the size in bytes."""
    width = (page.viewport_size or {"width": 0})["width"]
    height = int(page.evaluate("document.documentElement.scrollHeight"))
    taken = page.screenshot(
        full_page=True,
        animations="disabled",
        clip={"x": 0, "y": 0, "width": width, "height": min(height, TALLEST)},
    )
    picture = Image.open(BytesIO(taken)).convert("RGB").quantize(COLOURS)
    target = FOLDER / f"{name}.png"
    picture.save(target, optimize=True)
    return target.stat().st_size


def take(pages: BrowserPages, crib: Crib, name: str, path: str, theme: Theme) -> int:
    """Both pictures of a page."""
    person = None if name == "sign-in" else "ada"
    page = pages.open(crib, person, path, size=DESKTOP, theme=theme, allow=["401"])
    suffix = "-dark" if theme == "dark" else ""
    size = 0
    for width, height in (DESKTOP, PHONE):
        page.set_viewport_size({"width": width, "height": height})
        if person is not None:
            settle(page)
        page.wait_for_function("document.fonts.ready.then(() => true)")
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
        crib_in(Path(folder, "workshop")) as crib,
    ):
        story = play_story(crib)
        pages = BrowserPages(browser)
        for name, path in {**story.paths, "sign-in": "/sign-in"}.items():
            size += take(pages, crib, name, path, "light")
            if name in IN_THE_DARK:
                size += take(pages, crib, name, path, "dark")
        pages.close()
    print(f"{len([*FOLDER.glob('*.png')])} pictures, {size // 1000} kB")
    if size > MOST_BYTES:
        sys.exit(f"together they have more than {MOST_BYTES // 1000} kB; take fewer, or smaller")


if __name__ == "__main__":
    main()
