"""The figures of the pages: what is drawn lies there, is shown, and is told in words."""

from __future__ import annotations

import io
import re
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from infralens.authoring.figures import FIGURES, MOST_BYTES, drawn, folder

EXERCISES = folder().parents[1]
PAGES = [*EXERCISES.glob("handbook/*.md"), *EXERCISES.glob("*/lab-*/README.md")]
SHOWN = re.compile(r"!\[([^\]]*)\]\(([^)\s]+)\)")
CHEAP = ("spacings", "dissolving")
LEAST_WORDS = 15
MOST_APART = 2.0  # of 255, on average: another build of a font moves a few letters' edges


def pixels(png: bytes) -> np.ndarray:
    with Image.open(io.BytesIO(png)) as image:
        return np.asarray(image.convert("RGB"), dtype=float)


def apart(one: np.ndarray, other: np.ndarray) -> float:
    """How far two pictures of one size differ on average; infinite for another size."""
    return float(np.abs(one - other).mean()) if one.shape == other.shape else float("inf")


@pytest.mark.parametrize("name", CHEAP)
def test_a_figure_is_what_its_code_draws(name: str) -> None:
    kept = pixels((folder() / f"{name}.png").read_bytes())
    assert apart(pixels(drawn(name)), kept) < MOST_APART


def test_another_figure_would_be_noticed() -> None:
    kept = pixels((folder() / "spacings.png").read_bytes())
    moved = np.roll(kept, 12, axis=1)
    assert apart(moved, kept) > MOST_APART
    assert apart(kept[:-1], kept) > MOST_APART


def test_every_figure_is_drawn_by_code_small_and_shown_with_words() -> None:
    shown: dict[Path, list[str]] = {}
    for page in PAGES:
        for words, target in SHOWN.findall(page.read_text(encoding="utf-8")):
            shown.setdefault((page.parent / target).resolve(), []).append(words)
    assert sorted(shown) == sorted((folder() / f"{name}.png").resolve() for name in FIGURES)
    assert sorted(path.stem for path in folder().iterdir()) == sorted(FIGURES)
    assert all(path.stat().st_size <= MOST_BYTES for path in folder().iterdir())
    told = [words for texts in shown.values() for words in texts]
    assert all(len(words.split()) >= LEAST_WORDS for words in told)
