"""A lab for attacks alone: what is lent is a function, an object, a module."""

from collections.abc import Callable
from typing import Any

from torch import Tensor, nn


def linear(state: dict[str, Tensor]) -> nn.Module:
    """Supplied: a linear layer with this state."""
    rows, columns = state["weight"].shape
    layer = nn.Linear(columns, rows)
    layer.load_state_dict(state)
    return layer


def denoise(denoiser: Callable[..., Tensor], sample: Tensor, timesteps: list[float]) -> Tensor:
    """1.1 · For each t: the sample less a tenth of what the denoiser says."""
    raise NotImplementedError("TODO 1.1: denoise")


def decode(vae: Any, latents: Tensor) -> Tensor:
    """1.2 · The latents, unscaled and decoded; ValueError where they have not four axes."""
    raise NotImplementedError("TODO 1.2: decode")


class Adapter(nn.Module):
    """1.3 · A frozen layer plus the product of two small ones, `up` beginning at zero."""

    def __init__(self, base: nn.Module, rank: int) -> None:
        super().__init__()
        raise NotImplementedError("TODO 1.3: Adapter.__init__")

    def forward(self, x: Tensor) -> Tensor:
        """The base's answer plus the product's."""
        raise NotImplementedError("TODO 1.3: Adapter.forward")
