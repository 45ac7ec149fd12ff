"""Lab 03: a picture comes out of noise by the learner's Euler, beside the library's."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from diffusers import EulerDiscreteScheduler
from matplotlib.figure import Figure
from torch import Tensor

from infralens.shapes.exact import ExactDenoiser, captioned_pictures
from infralens.show.pictures.answers import number, tensor
from infralens.show.pictures.look import DASHES, LIBRARY, MINE, SERIES, plain, row, sheet

CONFIG: dict[str, Any] = {
    "num_train_timesteps": 1000,
    "beta_start": 0.00085,
    "beta_end": 0.012,
    "beta_schedule": "scaled_linear",
    "prediction_type": "epsilon",
    "timestep_spacing": "trailing",
    "steps_offset": 1,
}
PICTURES = 400  # the more, the slower; these are enough for a picture out of many
SHOWN_STEPS = 8
COUNTS = (5, 10, 20, 50)
FINE_STEPS = 200  # a run whose own error cannot be seen beside that of 50 steps


@dataclass(frozen=True)
class Run:
    """What a scheduler did: the samples before each step and after the last, float64 (n + 1, …)."""

    samples: Tensor
    sigmas: Tensor  # (n + 1,)


def draw(mine: Any, seed: int) -> Figure:
    """The picture at each of eight steps, and the error along runs of 5 to 50 steps."""
    noise = torch.randn((1, 3, 32, 32), generator=torch.Generator().manual_seed(seed))
    network = network_of(PICTURES)
    counts = (SHOWN_STEPS, *COUNTS)
    yours = {n: run_of(theirs(mine, n), n, noise, network) for n in counts}
    right = {n: run_of(library(n), n, noise, network) for n in (*counts, FINE_STEPS)}
    figure = sheet(9.6, 6.6, "Lab 03 · from noise to a picture by Euler's method")
    shown = right[SHOWN_STEPS]
    titles = [f"σ = {sigma:.2f}" for sigma in shown.sigmas[:-1].tolist()] + ["σ = 0"]
    for name, run, bottom, colour in (
        ("yours", yours[SHOWN_STEPS], 0.745, MINE),
        ("diffusers", shown, 0.565, LIBRARY),
    ):
        images = seen(run.samples, shown.sigmas)
        box = (0.05, bottom, 0.94, 0.15)
        row(figure, images, titles, name=name, box=box, colour=colour)
    _errors(figure, yours, right)
    return figure


def seen(samples: Tensor, sigmas: Tensor) -> list[Tensor]:
    """The samples at one size for the eye: divided by √(σ² + 1), the library's σ for both."""
    return [x / math.sqrt(sigma**2 + 1) for x, sigma in zip(samples, sigmas.tolist(), strict=True)]


def _errors(figure: Figure, yours: dict[int, Run], right: dict[int, Run]) -> None:
    """How far each run lies from a fine one, over σ: the learner's lines on the library's."""
    axes = figure.add_axes((0.075, 0.085, 0.9, 0.385))
    fine = right[FINE_STEPS]
    for i, n in enumerate(COUNTS):
        colour, dash = SERIES[i], DASHES[i]
        sigmas = right[n].sigmas
        wanted = torch.stack([_between(fine, sigma) for sigma in sigmas.tolist()])
        for run, style in (
            (right[n], {"linewidth": 5, "alpha": 0.3, "solid_capstyle": "round"}),
            (yours[n], {"linewidth": 1.6, "linestyle": dash, "label": f"{n} steps, yours"}),
        ):
            gaps = (run.samples - wanted).flatten(1).square().mean(dim=1).sqrt()
            axes.plot(sigmas[1:], gaps[1:].clamp(min=1e-6), color=colour, **style)
    axes.plot([], [], color="#767676", linewidth=5, alpha=0.3, label="diffusers")
    axes.set_xscale("symlog", linthresh=0.1)
    axes.set_yscale("log")
    axes.set_xlim(15, 0)
    axes.set_xticks([10, 3, 1, 0.3, 0.1, 0], ["10", "3", "1", "0.3", "0.1", "0"])
    axes.set_title(
        f"The distance to a run of {FINE_STEPS} steps: where your lines lie on the broad ones, you "
        "step as diffusers does.",
        fontsize=9,
        loc="left",
    )
    plain(axes, "noise level σ (a run goes from left to right)", "distance (root mean square)")
    axes.legend(fontsize=8, frameon=False, loc="best")


def _between(fine: Run, sigma: float) -> Tensor:
    """The sample of the fine run at this σ, on the line between its neighbours."""
    levels = fine.sigmas.tolist()
    after = next(i for i, level in enumerate(levels) if level <= sigma + 1e-9)
    if after == 0:
        return fine.samples[0]
    part = (levels[after - 1] - sigma) / (levels[after - 1] - levels[after])
    return torch.lerp(fine.samples[after - 1], fine.samples[after], part)


class Network:
    """The exact denoiser as a network that was trained with ᾱ of the config: (x, t) → ε."""

    def __init__(self, denoiser: ExactDenoiser) -> None:
        self.denoiser = denoiser
        kept = EulerDiscreteScheduler.from_config(CONFIG).alphas_cumprod.double()
        self.levels = ((1 - kept) / kept).sqrt()

    def __call__(self, x: Tensor, t: float) -> Tensor:
        place = min(max(t, 0.0), len(self.levels) - 1.0)
        below = math.floor(place)
        above = min(below + 1, len(self.levels) - 1)
        level = torch.lerp(self.levels[below], self.levels[above], place - below)
        return self.denoiser.epsilon(x, 1 / (level**2 + 1))


def network_of(count: int) -> Network:
    """The network for so many pictures."""
    return Network(captioned_pictures(count).denoiser)


@dataclass(frozen=True)
class Stepper:
    """A scheduler whose run is laid out: plain numbers in, checked tensors out."""

    timesteps: list[float]
    sigmas: Tensor
    start: float
    scale: Callable[[Tensor, int], Any]
    step: Callable[[Tensor, int, Tensor], Any]


def run_of(stepper: Stepper, n: int, noise: Tensor, network: Network) -> Run:
    """From noise to the end: every sample on the way."""
    x = noise * stepper.start
    samples = [x.double()]
    for i in range(n):
        seen = tensor(stepper.scale(x, i), tuple(x.shape), "Euler.scale_model_input").float()
        output = network(seen, stepper.timesteps[i])
        x = tensor(stepper.step(output, i, x), tuple(x.shape), "Euler.step").float()
        samples.append(x.double())
    return Run(torch.cat(samples), stepper.sigmas)


def theirs(mine: Any, n: int) -> Stepper:
    """A run of n steps of the learner's Euler. NotDrawnError for what cannot be drawn with."""
    euler = mine.Euler(CONFIG)
    euler.set_timesteps(n)
    times, levels = euler.timesteps, euler.sigmas
    return Stepper(
        tensor(times, (n,), "Euler.timesteps").tolist(),
        tensor(levels, (n + 1,), "Euler.sigmas"),
        number(euler.init_noise_sigma, "Euler.init_noise_sigma"),
        lambda x, i: euler.scale_model_input(x, times[i]),
        lambda output, i, x: euler.step(output, times[i], x),
    )


def library(n: int) -> Stepper:
    """A run of n steps of EulerDiscreteScheduler."""
    euler = EulerDiscreteScheduler.from_config(CONFIG)
    euler.set_timesteps(n)
    return Stepper(
        euler.timesteps.tolist(),
        euler.sigmas.double(),
        float(euler.init_noise_sigma),
        lambda x, i: euler.scale_model_input(x, euler.timesteps[i]),
        lambda output, i, x: euler.step(output, euler.timesteps[i], x).prev_sample,
    )
