"""The pictures of the README: `python -m infralens.authoring.figures.readme [NAME …]` draws them.

They lie in .github/pictures. Pages are seen in Chromium, by playwright: install `[dev,site]`.
"""

from __future__ import annotations

import io
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from shutil import which
from typing import TYPE_CHECKING, Literal

from PIL import Image

from infralens.authoring.figures.solutions import MISTAKES, side_by_side
from infralens.authoring.figures.solved import text_of
from infralens.labs import find_lab, find_labs, own_place
from infralens.regular import write_whole
from infralens.show.pictures.look import as_png

if TYPE_CHECKING:
    from playwright.sync_api import FloatRect, Page

MOST_BYTES = 120_000
WIDTH, HEIGHT, BETWEEN = 760, 560, 12  # of a window, and the strip of grey between the halves
OPENED = (1, 3)  # of the checkpoints
MARGIN = 12  # above a heading
GREY = (128, 128, 128)
Opened = Callable[[str, str], "Page"]
"""Opens an address in the mode "light" or "dark"."""


def scheduler() -> bytes:
    """Lab 03's solution beside one of its misconceptions, each a run from noise to the end."""
    return as_png(side_by_side())


def report() -> bytes:
    """The HTML report of that misconception: its largest difference, light and dark."""
    with tempfile.TemporaryDirectory() as place, browser() as opened:
        mine, page = Path(place, "scheduler.py"), Path(place, "report.html")
        mine.write_text(text_of("lab-03", MISTAKES[0]), encoding="utf-8")
        how = ["--file", str(mine), "--seed", "3", "--format", "html", "--output", str(page)]
        subprocess.run([sys.executable, "-m", "infralens", "grade", "lab-03", *how], check=False)
        sheets = [opened(page.as_uri(), mode) for mode in ("light", "dark")]
        halves = [sheet.locator("section:has(svg)").first.screenshot() for sheet in sheets]
    return beside(halves)


def site() -> bytes:
    """A page of the handbook, light, and the checkpoints of lab 03 with two answers open, dark."""
    with tempfile.TemporaryDirectory() as place, browser() as opened:
        pages = Path(place, "site")
        subprocess.run([sys.executable, "-m", "infralens", "site", str(pages)], check=True)
        text = opened((pages / "handbook" / "process.html").as_uri(), "light")
        lab = find_lab("lab-03", find_labs())
        asked = opened((pages / lab.track / lab.folder / "index.html").as_uri(), "dark")
        for number in OPENED:
            answer = asked.locator("#checkpoints details").nth(number)
            answer.evaluate("details => details.open = true")
        parts = ((text, "the-reverse-process"), (asked, "checkpoints"))
        return beside([seen(page, part) for page, part in parts])


def seen(page: Page, part: str) -> bytes:
    """A section of a page from its heading on, as high as a window."""
    page.evaluate("Promise.all([...document.images].map(image => image.decode()))")
    top = page.locator(f"#{part}").evaluate("part => part.getBoundingClientRect().top + scrollY")
    clip: FloatRect = {"x": 0, "y": top - MARGIN, "width": WIDTH, "height": HEIGHT}
    return page.screenshot(full_page=True, clip=clip)


@contextmanager
def browser() -> Iterator[Opened]:
    """Chromium without a window."""
    from playwright.sync_api import sync_playwright

    path = which("chromium") or which("chromium-browser")
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])

        def opened(address: str, mode: str) -> Page:
            page = chromium.new_page(viewport={"width": WIDTH, "height": HEIGHT})
            scheme: Literal["dark", "light"] = "dark" if mode == "dark" else "light"
            page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
            page.goto(address)
            return page

        yield opened
        chromium.close()


def beside(halves: Sequence[bytes]) -> bytes:
    """Two pictures of one size as one PNG file of few colours."""
    left, right = (Image.open(io.BytesIO(half)).convert("RGB") for half in halves)
    whole = Image.new("RGB", (left.width + BETWEEN + right.width, left.height), GREY)
    whole.paste(left, (0, 0))
    whole.paste(right, (left.width + BETWEEN, 0))
    png = io.BytesIO()
    whole.quantize(128, dither=Image.Dither.NONE).save(png, "PNG", optimize=True)
    return png.getvalue()


PICTURES: dict[str, Callable[[], bytes]] = {"scheduler": scheduler, "report": report, "site": site}


def main(names: Sequence[str]) -> int:
    """Draw the pictures of these names, or all."""
    for name in names or PICTURES:
        png = PICTURES[name]()
        if len(png) > MOST_BYTES:
            raise ValueError(
                f"{name}.png has {len(png):,} bytes; at most {MOST_BYTES:,} are wanted"
            )
        write_whole(own_place().exercises.parent / ".github" / "pictures" / f"{name}.png", png)
        print(f"{name}.png: {len(png):,} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
