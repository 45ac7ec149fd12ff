"""`infralens try`: a picture by the learner's own lab 06, in this very process."""

from __future__ import annotations

import contextlib
import functools
import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import torch
from diffusers import EulerAncestralDiscreteScheduler
from PIL import Image

from infralens.candidate.loading import binding_error, describe, load
from infralens.examiner.candidate.submission import (
    Submission,
    read_submission,
    require_gradable,
)
from infralens.examiner.compare.describe import kind
from infralens.examiner.errors import LearnerError, UngradableError
from infralens.shapes import FOLDER
from infralens.shapes.drawing import PICTURE
from infralens.shapes.sampling import Request, load_pipeline, one_thread, sample

FUNCTION = "generate"
"""6.5, text to image: from components to pixels."""

MOST_IN_DOUBT = 0.01
"""Share of the values that may lie on the edge of rounding and be one level off, as in 6.5."""


class TryError(Exception):
    """The learner's code drew no picture; the text is one sentence that says why."""


@dataclass(frozen=True)
class Tried:
    """The learner's picture and the library's for the same words, both 32 x 32 RGB."""

    mine: Image.Image
    library: Image.Image

    @property
    def wrong_pixels(self) -> int:
        """How many pixels differ: none when only rounding can be the reason."""
        gaps = np.abs(np.asarray(self.mine, dtype=int) - np.asarray(self.library, dtype=int))
        if gaps.max() <= 1 and (gaps > 0).mean() < MOST_IN_DOUBT:
            return 0
        return int((gaps.max(axis=2) > 0).sum())


def try_out(
    submission: Path, prompt: str, negative_prompt: str, request: Request, seed: int
) -> Tried:
    """Draw the prompt with the file's `generate` and with StableDiffusionPipeline.

    Both have the shipped networks, a generator with this seed, and a new Euler ancestral scheduler:
    it scales what the UNet sees and draws noise in every step, so that mistakes there are seen too.

    Raises UnreadableError when there is no file to read, and TryError when the file cannot run, it
    or its function raises, or the answer is something else than (1, 32, 32, 3) uint8.
    """
    text = read_submission(submission)
    try:
        require_gradable(text)
    except UngradableError as error:
        raise TryError(f"Nothing is drawn: {error}") from None
    pipe = load_pipeline(FOLDER)
    settings = pipe.scheduler.config
    pipe.scheduler = EulerAncestralDiscreteScheduler.from_config(settings)
    (library,) = sample(pipe, [prompt], [seed], request, negative_prompts=[negative_prompt])
    components = {**pipe.components, "scheduler": type(pipe.scheduler).from_config(settings)}
    arguments = (
        components,
        [prompt],
        [negative_prompt],
        request.steps,
        request.guidance_scale,
        torch.Generator().manual_seed(seed),
        1,  # image for the prompt
        PICTURE,
        PICTURE,
    )
    with _told(text):
        function = getattr(load(text.text, text.filename), FUNCTION, None)
        if function is None:
            raise TryError(text.missing(FUNCTION, "lab-06"))
        if not callable(function):
            raise TryError(f"Your `{FUNCTION}` is not a function.")
        misfit = binding_error(function, arguments, {})
        if misfit is not None:
            raise TryError(f"Your `{FUNCTION}` does not take the lab's parameters: {misfit}")
        with torch.no_grad(), one_thread(torch.device("cpu")):
            answer = function(*arguments)
        mine = Image.fromarray(_pixels(answer)[0])
    return Tried(mine, library)


TOLD_TO_END = {128 + getattr(signal, name, 0) for name in ("SIGTERM", "SIGHUP", "SIGQUIT")} - {128}


@contextlib.contextmanager
def _told(submission: Submission) -> Iterator[None]:
    """What the learner's code raises becomes a TryError; Ctrl-C and signals go on as they are."""
    ways_out = os._exit, os.abort
    os._exit, os.abort = _ended, functools.partial(_ended, None)  # type: ignore[assignment]
    try:
        yield
    except (TryError, KeyboardInterrupt):
        raise
    except _EndedError as ended:
        raise TryError(f"Nothing is drawn: your code ended its process{ended}.") from None
    except BaseException as error:
        if isinstance(error, SystemExit) and error.code in TOLD_TO_END:
            raise
        raised = describe(error, submission.filename)
        advice = submission.lacks_its_neighbour(raised.type_names, raised.text)
        failure = LearnerError(raised, advice)
        if failure.not_started:
            todo, _, name = failure.raised.text.removeprefix("TODO ").partition(": ")
            raise TryError(f"Nothing is drawn: {todo} ({name}) is not started.") from None
        raise TryError(f"Nothing is drawn: {failure.sentence}") from None
    finally:
        os._exit, os.abort = ways_out


class _EndedError(BaseException):
    """The learner's code would have ended this very process, and nobody could have said so."""


def _ended(code: int | None) -> NoReturn:
    raise _EndedError("" if code is None else f" with exit code {code}")


def _pixels(answer: Any) -> np.ndarray[Any, Any]:
    """The answer as an array, (1, 32, 32, 3) uint8."""
    if isinstance(answer, torch.Tensor) and answer.dtype == torch.uint8:
        with contextlib.suppress(TypeError, RuntimeError, NotImplementedError):  # it has no numbers
            answer = answer.cpu().numpy()
    shape = (1, PICTURE, PICTURE, 3)
    if isinstance(answer, np.ndarray) and answer.dtype == np.uint8 and answer.shape == shape:
        return np.asarray(answer)
    raise TryError(
        f"Your `{FUNCTION}` returned {kind(answer)}; a picture of {PICTURE} x {PICTURE} pixels is "
        f"{shape} uint8."
    )
