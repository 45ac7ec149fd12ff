"""What a submission answered, before it is drawn: hostile until it has passed here."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from infralens.examiner.compare.describe import kind

MOST = 1e30  # of a number: its square is finite in float64


class NotDrawnError(Exception):
    """Nothing can be drawn of what the learner's code does; the text is one sentence."""


def tensor(answer: Any, shape: tuple[int, ...], of: str) -> Tensor:
    """The answer of the function `of` as float64 of this shape; NotDrawnError if it is not one."""
    if not isinstance(answer, Tensor) or answer.shape != shape or not _has_numbers(answer):
        raise NotDrawnError(f"`{of}` gave {kind(answer)}; numbers of shape {shape} are drawn.")
    values: Tensor = answer.detach().double()
    if not bool(values.isfinite().all()):
        raise NotDrawnError(f"`{of}` gave values that are not finite: NaN or infinity.")
    return values


def _has_numbers(answer: Tensor) -> bool:
    """Whether it holds real numbers, here: not complex, not bool, not sparse, not meta."""
    real = not answer.is_complex() and answer.dtype != torch.bool
    return real and answer.layout == torch.strided and answer.device.type == "cpu"


def pixels(answer: Any, shape: tuple[int, ...], of: str) -> NDArray[np.uint8]:
    """The answer of `of` as uint8 of this shape, tensor or array; NotDrawnError if it is not."""
    if isinstance(answer, Tensor) and answer.dtype == torch.uint8:
        return tensor(answer, shape, of).byte().numpy()
    if not isinstance(answer, np.ndarray) or (answer.dtype, answer.shape) != (np.uint8, shape):
        wanted = f"pixels (uint8) of shape {shape} are drawn"
        raise NotDrawnError(f"`{of}` gave {kind(answer)}; {wanted}.")
    return answer


def number(answer: Any, of: str) -> float:
    """The answer of `of` as a finite number; NotDrawnError if it is not one."""
    if isinstance(answer, Tensor) and answer.numel() == 1:
        return float(tensor(answer, tuple(answer.shape), of).sum())
    if isinstance(answer, bool) or not isinstance(answer, int | float):
        raise NotDrawnError(f"`{of}` is {kind(answer)}, and no number.")
    if not abs(answer) < MOST:
        raise NotDrawnError(f"`{of}` is {'NaN' if answer != answer else 'too large'}.")
    return float(answer)
