"""Taking at once what would be taken sooner or later, before a submission's memory is measured."""

from __future__ import annotations

import contextlib
import ctypes
import importlib
from collections.abc import Iterable

import numpy as np
import torch
from torch.nn import functional

M_MMAP_THRESHOLD, M_ARENA_MAX = -3, -8  # of glibc's mallopt
LARGE_BYTES = 8_192  # above it nothing is left behind as holes between small objects


def warm_up(imports: Iterable[str]) -> None:
    """Import what the submission will import, use what it will use of torch, and hoard nothing.

    Only what a submission itself takes is to count: not the libraries that it is written with, and
    not what the allocator keeps of memory that was given back.
    """
    with contextlib.suppress(AttributeError, OSError):  # glibc's; another one has none
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(M_MMAP_THRESHOLD, LARGE_BYTES)  # larger blocks go back to the system when freed
        mallopt(M_ARENA_MAX, 1)  # a thread's own arena would reserve 64 MiB
    for name in imports:
        with contextlib.suppress(Exception):  # it will say so itself, in its own place
            importlib.import_module(name)
    for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16):
        _use_torch(dtype)
    for numbers in (np.ones((256, 256), np.float32), np.ones((256, 256), np.float64)):
        numbers @ numbers  # its BLAS takes a buffer of 32 MiB, once


def _use_torch(dtype: torch.dtype) -> None:
    x = torch.linspace(-1, 1, 2 * 96 * 64).reshape(2, 96, 64).to(dtype)
    scores = x @ x.transpose(-1, -2)
    weights = scores.softmax(-1) + scores.exp() / scores.logsumexp(-1, keepdim=True)
    torch.einsum("bij,bjd->bid", weights, x)
    torch.baddbmm(x, weights, x)
    functional.scaled_dot_product_attention(x[None], x[None], x[None])
    torch.cat([x, x]).amax(-1)
