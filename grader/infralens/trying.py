"""`infralens generate --mine`: a picture by the learner's own lab 06, in this very process."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from infralens.candidate.loading import describe, load
from infralens.examiner.submission import read_submission
from infralens.shapes.sampling import shipped_pipeline

if TYPE_CHECKING:
    from PIL.Image import Image

FUNCTION = "generate"
"""6.5, text to image: from components to pixels."""

LEVELS = 1
"""Two pictures are the same when no pixel differs by more: what rounding may do."""


class TryError(Exception):
    """The learner's code drew no picture; the text is one sentence that says why."""


def picture_by(
    submission: Path,
    prompt: str,
    *,
    negative_prompt: str,
    steps: int,
    guidance_scale: float,
    seed: int,
) -> Image:
    """The picture (32 x 32 RGB) that the file's `generate` draws with the shipped networks.

    Raises TryError when the file or its function raises, or answers with something else than
    (1, 32, 32, 3) uint8.
    """
    from PIL import Image

    text = read_submission(submission)
    components = dict(shipped_pipeline().components)
    try:
        function = getattr(load(text.text, text.filename), FUNCTION, None)
        if function is None:
            raise TryError(f"There is no `{FUNCTION}` in {submission}.")
        with torch.no_grad():
            answer = function(
                components,
                [prompt],
                [negative_prompt],
                steps,
                guidance_scale,
                torch.Generator().manual_seed(seed),
                1,
                32,
                32,
            )
    except (Exception, SystemExit) as error:
        if isinstance(error, TryError):
            raise
        raise TryError(_told(error, text.filename)) from None
    return Image.fromarray(_pixels(answer)[0])


def _told(error: BaseException, filename: str) -> str:
    raised = describe(error, filename)
    if isinstance(error, NotImplementedError) and raised.text.startswith("TODO"):
        todo, _, name = raised.text.removeprefix("TODO ").partition(": ")
        return f"Nothing is drawn: {todo} ({name}) is not started."
    where = f" in line {raised.frames[-1][0]}" if raised.frames else ""
    return f"Your code raised {raised.type_name}{where}: {raised.text}"


def _pixels(answer: Any) -> np.ndarray[Any, Any]:
    if not isinstance(answer, torch.Tensor | np.ndarray):
        raise TryError(f"Your `{FUNCTION}` returned a {type(answer).__name__}, which is no array.")
    pixels = np.asarray(answer.cpu() if isinstance(answer, torch.Tensor) else answer)
    if pixels.shape != (1, 32, 32, 3) or pixels.dtype != np.uint8:
        raise TryError(
            f"Your `{FUNCTION}` returned {pixels.shape} {pixels.dtype}; a picture of 32 x 32 "
            "pixels is (1, 32, 32, 3) uint8."
        )
    return pixels


def differing(mine: Image, library: Image) -> int:
    """How many pixels of two pictures differ by more than a rounding."""
    distance = np.abs(np.asarray(mine, dtype=int) - np.asarray(library, dtype=int))
    return int((distance.max(axis=2) > LEVELS).sum())
