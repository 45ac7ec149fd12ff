"""A faulty library, for proving suites.

It gives slightly wrong answers, and whatever is held against it must then fail, the solution
included. A check that still passes does not really ask the library.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

ULPS = 10_000  # of the largest value in float32: far beyond rounding, below any real mistake
HALF_ULPS = 32  # in half precision


def perturbed(value: Any) -> Any:
    """The value, slightly wrong."""
    if isinstance(value, Tensor):
        if value.is_floating_point():
            half = value.dtype in (torch.float16, torch.bfloat16)
            ulps = (HALF_ULPS if half else ULPS) * torch.finfo(value.dtype).eps
            return value + ulps * float(value.abs().max().clamp(min=1e-6))
        return ~value if value.dtype is torch.bool else value + 1
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1
    if isinstance(value, float):
        return value + ULPS * torch.finfo(torch.float32).eps * max(abs(value), 1e-6)
    if isinstance(value, str):
        return value + "?"
    if isinstance(value, list | tuple):
        return type(value)(perturbed(item) for item in value)
    if isinstance(value, dict):
        return {key: perturbed(item) for key, item in value.items()}
    return None
