"""Fresh inputs. The same seed and case give the same inputs, whatever else is graded beside."""

from __future__ import annotations

import hashlib
import inspect
import random
from collections.abc import Callable, Sequence
from typing import NoReturn, TypeVar

import torch
from torch import Tensor

Item = TypeVar("Item")


def _told(method: Callable[..., object]) -> str:
    """The parameters of a method as they are written in a call."""
    _, *parameters = inspect.signature(method).parameters.values()
    return f"({', '.join(str(p.replace(annotation=p.empty)) for p in parameters)})"


class Draw:
    """Draws the inputs of one case of one check.

    Every round of a case has the same whole numbers, choices and shapes; the floats and the numbers
    in the tensors are others. So an answer that was remembered by its shape is wrong in round 1.
    """

    def __init__(self, seed: int, case: str, device: str = "cpu", round_: int = 0) -> None:
        digest = hashlib.sha256(f"{seed}:{case}".encode()).digest()
        self.device = torch.device(device)
        self._random = random.Random(digest)
        values = hashlib.sha256(f"{seed}:{case}:{round_}".encode()).digest() if round_ else digest
        self._floats = random.Random(values) if round_ else self._random
        self._generator = torch.Generator().manual_seed(int.from_bytes(values[:7], "big"))

    def __getattr__(self, name: str) -> NoReturn:
        """What `draw` does not have, told with what it has: a slip in a suite is one sentence."""
        has = (value for word, value in vars(Draw).items() if not word.startswith("_"))
        told = ", ".join(f"{of.__name__}{_told(of)}" for of in has if callable(of))
        raise AttributeError(f"draw has no {name}; it has {told}")

    def integer(self, low: int, high: int) -> int:
        """A whole number, both ends included."""
        return self._random.randint(low, high)

    def uniform(self, low: float, high: float) -> float:
        """A float, to four significant digits so that it can be read in a report."""
        value = self._random.uniform(low, high)  # drawn in every round: what follows stays the same
        if self._floats is not self._random:
            value = self._floats.uniform(low, high)
        return float(f"{value:.4g}")

    def choice(self, items: Sequence[Item]) -> Item:
        return self._random.choice(items)

    def sample(self, items: Sequence[Item], count: int) -> list[Item]:
        """Several different ones, in random order."""
        return self._random.sample(items, count)

    def latents(self, *shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
        """Standard normal numbers, drawn on the CPU in float32 so that devices agree."""
        return torch.randn(shape, generator=self._generator).to(self.device, dtype)

    def tensor(
        self, *shape: int, low: float = 0.0, high: float = 1.0, dtype: torch.dtype = torch.float32
    ) -> Tensor:
        """Uniform numbers between `low` and `high`."""
        numbers = torch.rand(shape, generator=self._generator) * (high - low) + low
        return numbers.to(self.device, dtype)
