"""How far from the truth an answer may be. Nothing of it is typed in for one check.

A tolerance is TOLERANCE_FACTOR times the library's own error on the same inputs, and TOLERANCE_ULPS
of the largest value.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from infralens.examiner.errors import GraderFaultError

TOLERANCE_FACTOR = 16  # times the library's own error
# Of the tensor's largest value: room for another order of operations where the library happens to
# be exact. Right answers with other algebra were seen 36 off.
TOLERANCE_ULPS = 64
HALF_TOLERANCE_ULPS = 8  # in half precision, where few operations are rounded
AGREEMENT_ULPS = 64  # how far the library may be from the truth before something of ours is wrong
HALF_AGREEMENT_ULPS = 8  # the same in half precision, where few operations are rounded
RUN_SHARE = 1e-5  # of the largest value, over a whole run; the nearest mistake is at 2e-2


def float64(value: Any) -> Tensor:
    """The numbers in float64 on the CPU."""
    return torch.as_tensor(value).detach().cpu().to(torch.float64)


def distance(one: Tensor, other: Tensor) -> float:
    """The largest absolute difference; infinite where either is not finite or the shapes differ."""
    if one.shape != other.shape:
        return float("inf")
    if one.numel() == 0:
        return 0.0
    return float((one - other).abs().nan_to_num(float("inf")).max())


def tolerance_of(own_error: float, dtype: torch.dtype, ulp: float) -> float:
    """How far off an answer may be. `own_error`: the library's; `ulp`: one of the largest value."""
    half = dtype in (torch.float16, torch.bfloat16)
    return TOLERANCE_FACTOR * own_error + (HALF_TOLERANCE_ULPS if half else TOLERANCE_ULPS) * ulp


def allowed_agreement(dtype: torch.dtype) -> float:
    """How many ulps library and truth, or two answers, may lie apart."""
    half = dtype in (torch.float16, torch.bfloat16)
    return HALF_AGREEMENT_ULPS if half else AGREEMENT_ULPS


def graded_dtype(value: Any) -> torch.dtype:
    """The graded dtype: a tensor's own, float32 for Python floats."""
    return value.dtype if isinstance(value, Tensor) else torch.float32


def ulp_of(expected: Any, exact: Tensor) -> float:
    """One ulp of the largest value in the graded dtype."""
    dtype = graded_dtype(expected)
    if not dtype.is_floating_point:
        raise GraderFaultError("whole numbers are compared with assert_equals")
    return torch.finfo(dtype).eps * (float(exact.abs().max()) if exact.numel() else 0.0)
