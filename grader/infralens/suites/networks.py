"""Networks that suites build for themselves: the same ones each time, and never trained."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import torch

Module = TypeVar("Module", bound=torch.nn.Module)


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Torch draws from this seed on the CPU, and afterwards from where it was."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        yield


@contextmanager
def plain_convolutions() -> Iterator[None]:
    """Convolutions without oneDNN: as small as a suite's they take longer with it."""
    mkldnn: Any = torch.backends.mkldnn  # its types say that nobody sets it
    before, mkldnn.enabled = mkldnn.enabled, False
    try:
        yield
    finally:
        mkldnn.enabled = before


def frozen(module: Module, device: str | torch.device = "cpu") -> Module:
    """The module as it is used for inference: in eval mode, without gradients, on this device."""
    return module.eval().requires_grad_(False).to(device)
