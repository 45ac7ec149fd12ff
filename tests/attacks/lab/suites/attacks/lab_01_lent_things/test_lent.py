"""What is lent is used as it should be, as often as it should be, and is not changed."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch

from infralens.examiner import (
    Draw,
    assert_equals,
    assert_matches,
    assert_raises,
    remote,
    requires_grad,
    set_state,
    state_of,
    todo,
)


@todo("1.1")
def test_the_denoiser_is_called_once_a_timestep(candidate: Any, draw: Draw) -> None:
    """Each call gets the sample as it then is."""
    sample, weight = draw.latents(2, 3, 4, 5), draw.uniform(0.2, 0.8)
    timesteps = [draw.uniform(0, 1) for _ in range(draw.integer(2, 5))]
    seen: list[tuple[torch.Tensor, float]] = []

    def denoiser(latents: torch.Tensor, t: float) -> torch.Tensor:
        seen.append((latents.clone(), t))
        return latents * weight * t

    answer = candidate.denoise(denoiser, sample, timesteps)
    assert_equals([t for _, t in seen], value=timesteps, what="the timesteps of the calls")

    def run(start: torch.Tensor) -> torch.Tensor:
        for t in timesteps:
            start = start - 0.1 * (start * weight * t)
        return start

    assert_matches(answer, library=lambda: run(sample), truth=lambda: run(sample.double()))


@todo("1.2")
def test_the_latents_are_unscaled_before_they_are_decoded(candidate: Any, draw: Draw) -> None:
    """decode is used once, with latents / scaling_factor."""
    latents, factor = draw.latents(2, 4, 3, 5), draw.uniform(0.1, 0.5)
    target = SimpleNamespace(scaling_factor=factor, decode=lambda given: given * 3 + 1)
    vae = remote(target, attributes=["scaling_factor"], methods=["decode"])
    answer = candidate.decode(vae, latents)
    assert_matches(
        answer,
        library=lambda: latents / factor * 3 + 1,
        truth=lambda: latents.double() / factor * 3 + 1,
    )
    assert_equals([name for name, *_ in vae.uses].count("decode"), value=1, what="uses of decode")


@todo("1.2")
def test_latents_of_three_axes_are_refused(candidate: Any, draw: Draw) -> None:
    """ValueError, and decode is not used."""
    vae = remote(
        SimpleNamespace(scaling_factor=0.5, decode=lambda given: given),
        attributes=["scaling_factor"],
        methods=["decode"],
    )
    latents = draw.latents(4, 3, 5)
    assert_raises(
        lambda: candidate.decode(vae, latents), "ValueError", what="latents of three axes"
    )
    assert_equals([name for name, *_ in vae.uses].count("decode"), value=0, what="uses of decode")


def adapted(candidate: Any, draw: Draw) -> tuple[Any, Any, torch.Tensor, torch.Tensor]:
    weight, bias = draw.latents(3, 3), draw.latents(3)
    base = candidate.linear({"weight": weight, "bias": bias})
    return candidate.Adapter(base, 2), base, weight, bias


@todo("1.3")
def test_an_adapter_begins_as_its_base(candidate: Any, draw: Draw) -> None:
    """With `up` at zero nothing is changed, and the base is frozen."""
    mine, base, weight, bias = adapted(candidate, draw)
    x = draw.latents(4, 3)
    answer = mine(x)
    assert_matches(
        answer,
        library=lambda: torch.nn.functional.linear(x, weight, bias),
        truth=lambda: x.double() @ weight.double().T + bias.double(),
    )
    assert_equals(requires_grad(mine)["base.weight"], value=False, what="the base's requires_grad")
    assert_equals(state_of(base)["weight"], value=weight, what="the base's weight")


@todo("1.3")
def test_an_adapter_adds_its_product(candidate: Any, draw: Draw) -> None:
    """The answer is the base's plus x @ downᵀ @ upᵀ."""
    mine, _, weight, bias = adapted(candidate, draw)
    x, down, up = draw.latents(4, 3), draw.latents(2, 3), draw.latents(3, 2)
    set_state(mine, {"base.weight": weight, "base.bias": bias, "down": down, "up": up})
    answer = mine(x)

    def run(*given: torch.Tensor) -> torch.Tensor:
        x, weight, bias, down, up = given
        return x @ weight.T + bias + x @ down.T @ up.T

    assert_matches(
        answer,
        library=lambda: run(x, weight, bias, down, up),
        truth=lambda: run(*(value.double() for value in (x, weight, bias, down, up))),
    )
