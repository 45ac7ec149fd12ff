"""The loop (lab 04 of diffsynth): the states on its way, beside those of a loop of diffusers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from diffusers import EulerDiscreteScheduler, HeunDiscreteScheduler
from matplotlib.figure import Figure
from torch import Tensor

from infralens.examiner.candidate.proxies import given, remote
from infralens.show.pictures.answers import NotDrawnError, number, tensor
from infralens.show.pictures.lab_03 import CONFIG, Network, network_of, seen
from infralens.show.pictures.look import DASHES, LIBRARY, MINE, SERIES, plain, row, sheet

BESIDE = Path(__file__).with_name("beside_scheduler.py").read_text(encoding="utf-8")
SCHEDULERS = {"Euler": EulerDiscreteScheduler, "Heun": HeunDiscreteScheduler}
PICTURES = 400
STEPS = 8
LEAST = 1e-7  # of a distance that is drawn
METHODS = ("set_timesteps", "set_begin_index", "step", "scale_model_input")
ATTRIBUTES = ("timesteps", "sigmas", "order", "init_noise_sigma")
SHAPE = (1, 3, 32, 32)
MOST_CALLS = 100


@dataclass
class Run:
    """The states after each step, and their noise levels."""

    states: list[Tensor] = field(default_factory=list)
    sigmas: list[float] = field(default_factory=list)
    asked: int = 0


def draw(mine: Any, seed: int) -> Figure:
    """The states of Euler and Heun on their way, and their distance from the library's, over σ."""
    noise = torch.randn(SHAPE, generator=torch.Generator().manual_seed(seed))
    network = network_of(PICTURES)
    figure = sheet(9.6, 7.6, "The loop · the states on the way from noise to a picture")
    axes = figure.add_axes((0.085, 0.075, 0.89, 0.25))
    for i, (name, kind) in enumerate(SCHEDULERS.items()):
        right = library(kind, noise, network)
        run = yours(mine, kind, noise, network)
        levels = [min(n, len(right.states) - 1) for n in shown(len(right.states))]
        titles = [f"σ = {right.sigmas[n]:.2f}" for n in levels]
        for k, (who, colour, states) in enumerate(
            (("yours", MINE, run.states), ("diffusers", LIBRARY, right.states))
        ):
            nothing = torch.zeros(SHAPE, dtype=torch.float64)  # where no step was made
            images = [states[n] if n < len(states) else nothing for n in levels]
            scaled = seen(torch.cat(images), torch.tensor([right.sigmas[n] for n in levels]))
            box = (0.06, 0.805 - 0.285 * i - 0.132 * k, 0.925, 0.122)
            said = titles if k == 0 else [""] * len(titles)
            row(figure, scaled, said, name=f"{name}\n{who}", box=box, colour=colour)
        size = torch.cat(right.states).flatten(1).square().mean(dim=1).sqrt()
        pairs = list(zip(run.states, right.states, strict=False))
        gaps = [max(float((a - b).square().mean().sqrt()), LEAST) for a, b in pairs]
        style = {"color": SERIES[i], "linestyle": DASHES[i], "marker": "o", "markersize": 4}
        axes.plot(right.sigmas[: len(gaps)], gaps, label=f"{name}, yours to diffusers", **style)
        axes.plot(right.sigmas, size, color=SERIES[i], linewidth=5, alpha=0.3)
    axes.plot([], [], color="#767676", linewidth=5, alpha=0.3, label="the size of the state")
    axes.set_xscale("symlog", linthresh=0.1)
    axes.set_yscale("log")
    axes.set_xlim(15, -0.005)
    axes.set_ylim(LEAST / 2, 40)
    axes.set_xticks([10, 3, 1, 0.3, 0.1, 0], ["10", "3", "1", "0.3", "0.1", "0"])
    plain(axes, "noise level σ (a run goes from left to right)", "root mean square")
    axes.legend(fontsize=8, frameon=False, loc="center right")
    return figure


def shown(count: int) -> list[int]:
    """Eight of so many states, the first and the last among them."""
    return [round(n * (count - 1) / 7) for n in range(8)]


def yours(mine: Any, kind: Any, noise: Tensor, network: Network) -> Run:
    """A run of the learner's `denoise`. What it hands to the scheduler may be anything."""
    lent = LentScheduler(kind.from_config(CONFIG))
    there = remote(lent, attributes=ATTRIBUTES, methods=METHODS)

    def denoiser(x: Any, t: Any, condition: Any) -> Tensor:
        lent.count()
        sample = tensor(x, SHAPE, "denoise").float()
        return network(sample, number(t, "denoise: the timestep")).float()

    scheduler = given(mine, BESIDE).scheduler(there, True)
    answer = mine.denoise(denoiser, scheduler, noise, STEPS, torch.zeros(1, 1, 1), None)
    end = tensor(answer, SHAPE, "denoise")
    if not lent.run.states:
        raise NotDrawnError("`denoise` made no step.")
    lent.run.states[-1] = end
    return lent.run


def library(kind: Any, noise: Tensor, network: Callable[[Tensor, float], Tensor]) -> Run:
    """The loop of StableDiffusionPipeline.__call__."""
    scheduler, run = kind.from_config(CONFIG), Run()
    scheduler.set_timesteps(STEPS)
    x = noise * scheduler.init_noise_sigma
    for i, t in enumerate(scheduler.timesteps):
        output = network(scheduler.scale_model_input(x, t), float(t)).float()
        x = scheduler.step(output, t, x).prev_sample
        run.states.append(x.double())
        run.sigmas.append(float(scheduler.sigmas[i + 1]))
    return run


class LentScheduler:
    """The scheduler as the learner gets it; every step is noted."""

    def __init__(self, target: Any) -> None:
        self.target, self.run = target, Run()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.target, name)

    def count(self) -> None:
        self.run.asked += 1
        if self.run.asked > MOST_CALLS:
            raise NotDrawnError(f"more than {MOST_CALLS} calls in one run")

    @property
    def init_noise_sigma(self) -> float:
        return float(self.target.init_noise_sigma)

    def set_timesteps(self, steps: Any) -> None:
        count = number(steps, "denoise: the number of steps")
        if not 1 <= count <= MOST_CALLS:
            raise NotDrawnError(f"a run of {count:g} steps is not drawn")
        self.target.set_timesteps(int(count))

    def set_begin_index(self, index: Any) -> None:
        self.target.set_begin_index(int(number(index, "denoise: the begin index")))

    def scale_model_input(self, sample: Any, t: Any) -> Any:
        self.count()
        return self.target.scale_model_input(
            tensor(sample, SHAPE, "denoise").float(), self._time(t)
        )

    def step(self, output: Any, t: Any, sample: Any) -> Any:
        self.count()
        predicted, state = (tensor(each, SHAPE, "denoise").float() for each in (output, sample))
        made = self.target.step(predicted, self._time(t), state).prev_sample
        self.run.states.append(made.double())
        return made

    @staticmethod
    def _time(t: Any) -> Tensor:
        return torch.tensor(number(t, "denoise: the timestep"))
