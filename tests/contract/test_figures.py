"""The figures of the pages: what is drawn lies there, is shown, and is told in words."""

from __future__ import annotations

import io
import re
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from infralens.authoring.figures import FIGURES, GRIDS, MOST_BYTES, drawn, folder, readme
from infralens.labs import Lab, find_labs

EXERCISES = folder().parents[1]
PAGES = [*EXERCISES.glob("handbook/*.md"), *EXERCISES.glob("*/lab-*/README.md")]
SHOWN = re.compile(r"!\[([^\]]*)\]\(([^)\s]+)\)")
NAMES = (*FIGURES, *GRIDS)
TIMED = ("timeline",)  # a clock's: the next one has bars of other lengths
LEAST_WORDS = 15
MOST_APART = 2.0  # of 255, on average: another build of a font moves a few letters' edges


def pixels(png: bytes) -> np.ndarray:
    with Image.open(io.BytesIO(png)) as image:
        return np.asarray(image.convert("RGB"), dtype=float)


def apart(one: np.ndarray, other: np.ndarray) -> float:
    """How far two pictures of one size differ on average; infinite for another size."""
    return float(np.abs(one - other).mean()) if one.shape == other.shape else float("inf")


@pytest.mark.parametrize("name", NAMES)
def test_a_figure_is_what_its_code_draws(name: str) -> None:
    kept, again = pixels((folder() / f"{name}.png").read_bytes()), pixels(drawn(name))
    if name in TIMED:
        assert again.shape == kept.shape
    else:
        assert apart(again, kept) < MOST_APART


def test_another_figure_would_be_noticed() -> None:
    kept = pixels((folder() / "spacings.png").read_bytes())
    moved = np.roll(kept, 12, axis=1)
    assert apart(moved, kept) > MOST_APART
    assert apart(kept[:-1], kept) > MOST_APART


def shown_on(page: Path) -> list[tuple[Path, str]]:
    """The pictures of a page, and what each is told in."""
    told = SHOWN.findall(page.read_text(encoding="utf-8"))
    return [((page.parent / target).resolve(), words) for words, target in told]


def test_every_figure_is_drawn_by_code_small_and_shown_with_words() -> None:
    shown = [pair for page in PAGES for pair in shown_on(page)]
    files = {(folder() / f"{name}.png").resolve() for name in NAMES}
    assert {path for path, _ in shown} == files == set(folder().resolve().iterdir())
    assert all(path.stat().st_size <= MOST_BYTES for path in files)
    assert all(len(words.split()) >= LEAST_WORDS for _, words in shown)


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.relative_to(EXERCISES).as_posix())
def test_every_page_has_a_figure(page: Path) -> None:
    assert shown_on(page)


@pytest.mark.parametrize("lab", find_labs(), ids=lambda lab: lab.id)
def test_every_lab_page_says_how_its_picture_is_drawn(lab: Lab) -> None:
    assert f"`infralens show {lab.short}`" in lab.page.read_text(encoding="utf-8")


def test_the_readme_shows_what_its_command_draws() -> None:
    shown = shown_on(EXERCISES.parent / "README.md")
    assert [path.stem for path, _ in shown] == list(readme.PICTURES)
    assert {path.parent for path, _ in shown} == {(EXERCISES.parent / ".github/pictures").resolve()}
    assert all(path.stat().st_size <= readme.MOST_BYTES for path, _ in shown)
    assert all(len(words.split()) >= LEAST_WORDS for _, words in shown)
