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
    ### BEGIN SOLUTION
    for t in timesteps:
        sample = sample - 0.1 * denoiser(sample, t)
    return sample
    ### END SOLUTION


def decode(vae: Any, latents: Tensor) -> Tensor:
    """1.2 · The latents, unscaled and decoded; ValueError where they have not four axes."""
    ### BEGIN SOLUTION
    if latents.ndim != 4:
        raise ValueError(f"latents of {latents.ndim} axes")
    return vae.decode(latents / vae.scaling_factor)
    ### END SOLUTION


class Adapter(nn.Module):
    """1.3 · A frozen layer plus the product of two small ones, `up` beginning at zero."""

    def __init__(self, base: nn.Module, rank: int) -> None:
        super().__init__()
        ### BEGIN SOLUTION
        self.base = base.requires_grad_(False)
        self.down = nn.Parameter(Tensor(rank, 3).normal_())
        self.up = nn.Parameter(Tensor(3, rank).zero_())
        ### END SOLUTION

    def forward(self, x: Tensor) -> Tensor:
        """The base's answer plus the product's."""
        ### BEGIN SOLUTION
        return self.base(x) + x @ self.down.T @ self.up.T
        ### END SOLUTION
