"""A network of one line, schedulers to lend, and watched runs of Stable Diffusion's pipelines.

The lab is about the loop, so the network is a formula: it answers in no time, and pipelines take it
for their UNet.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from infralens.examiner import Recorded, given, recorded, remote
from infralens.suites.pipelines import pipeline_of
from infralens.suites.schedulers import STEP, signature_of, watched

CHANNELS, WIDTH = 4, 6  # of the latents; of the condition's tokens
ATTRIBUTES = ("timesteps", "init_noise_sigma", "order")
METHODS = (
    "set_timesteps",
    "scale_model_input",
    "step",
    "add_noise",
    "scale_noise",
    "set_begin_index",
)
BESIDE = Path(__file__).with_name("beside.py").read_text(encoding="utf-8")
MIXING = torch.tensor(
    [[0.7, -0.3, 0.2, 0.1], [0.1, 0.6, -0.4, 0.2], [-0.2, 0.3, 0.8, -0.1], [0.4, 0.1, 0.2, -0.6]]
)


def predict(x: Tensor, t: Any, condition: Tensor) -> Tensor:
    """The network: channels mixed, a wave for t, the condition's mean; between −1 and 1."""
    time = float(torch.as_tensor(t).float().mean())
    phase = torch.arange(CHANNELS, device=x.device) * 0.7
    moved = torch.sin(0.11 * time + phase) + condition.mean(1)[:, :CHANNELS]
    mixed = torch.einsum("dc,bchw->bdhw", MIXING.to(x), x)
    return torch.tanh(0.4 * mixed + 0.1 * x.roll(1, -1) + 0.6 * moved[:, :, None, None])


def denoiser() -> Recorded:
    """The network as a function of (latents, t, condition), with a list of its calls. Lend it."""
    return recorded(predict, "denoiser")


class Network(torch.nn.Module):
    """The network where a pipeline has its UNet."""

    def __init__(self, device: torch.device) -> None:
        super().__init__()
        self.device, self.dtype = device, torch.float32
        self.config = SimpleNamespace(in_channels=CHANNELS, sample_size=8, time_cond_proj_dim=None)

    def forward(self, x: Tensor, t: Any, encoder_hidden_states: Tensor, **_: Any) -> Any:
        return (predict(x, t, encoder_hidden_states),)


@functools.lru_cache
def parameters_of(method: Any) -> list[tuple[str, int, bool]]:
    """A method's own parameters: (name, kind, required). Reading a signature takes its time."""
    return [
        (parameter.name, int(parameter.kind), parameter.default is parameter.empty)
        for parameter in list(signature_of(method).parameters.values())[1:]
    ]


class LentScheduler:
    """The grader's side of a lent scheduler.

    `steps` keeps (model_output, t, sample) of each step, `made` what came of it.

    A step without a generator draws from one that is always the same, so that a run can be repeated
    and a forgotten generator be named.
    """

    def __init__(self, target: Any) -> None:
        self.target = target
        self.steps: list[tuple[Any, ...]] = []
        self.made: list[Tensor] = []
        self.signature = signature_of(type(target).step)
        self.unasked = torch.Generator().manual_seed(0)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.target, name)

    def step(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        given = self.signature.bind(self, *args, **kwargs).arguments
        del given["self"]
        self.steps.append(tuple(given[name] for name in STEP))
        if "generator" in self.signature.parameters and given.get("generator") is None:
            given["generator"] = self.unasked
        given["return_dict"] = False
        with torch.no_grad():
            sample = self.target.step(**given)[0]
        self.made.append(sample)
        generators = given.get("generator", [])
        listed = generators if isinstance(generators, list | tuple) else [generators]
        return {"prev_sample": sample, "states": [one.get_state() for one in listed]}


def lend(candidate: Any, scheduler: Any) -> tuple[Any, LentScheduler]:
    """This scheduler as the learner's code may hold it, and as its uses are seen here."""
    seen = LentScheduler(scheduler)
    attributes = [name for name in ATTRIBUTES if hasattr(scheduler, name)]
    methods = {
        name: parameters_of(getattr(type(scheduler), name))
        for name in METHODS
        if hasattr(scheduler, name)
    }
    lent = remote(seen, attributes=attributes, methods=list(methods))
    name = type(scheduler).__name__
    return given(candidate, BESIDE).scheduler(lent, name, attributes, methods), seen


@dataclass
class Run:
    """What happened in a run, in order, and what came of it."""

    calls: list[tuple[Any, ...]] = field(default_factory=list)  # denoiser: latents, t, condition
    steps: list[tuple[Any, ...]] = field(default_factory=list)  # step: model_output, t, sample
    watched: list[tuple[Any, ...]] = field(default_factory=list)  # on_step: i, t, latents
    progress: list[int] = field(default_factory=list)  # the turns after which the bar moved
    latents: Any = None

    @property
    def turns(self) -> list[tuple[Any, ...]]:
        """Turn by turn: what the denoiser was given, then what step was given."""
        return [(*call, *step) for call, step in zip(self.calls, self.steps, strict=False)]


def loop(
    scheduler: Any,
    x: Tensor,
    ask: Callable[[int, Tensor, Any], Tensor],
    timesteps: Any = None,
    generator: Any = None,
) -> Run:
    """The turns of a run with a scheduler of diffusers. `ask(i, seen, t)` gives the prediction."""
    run = Run()
    takes_it = "generator" in signature_of(type(scheduler).step).parameters
    extra = {"generator": generator} if takes_it else {}
    for i, t in enumerate(scheduler.timesteps if timesteps is None else timesteps):
        scaled = hasattr(scheduler, "scale_model_input")
        output = ask(i, scheduler.scale_model_input(x, t) if scaled else x, t)
        run.steps.append((output, t, x))
        x = scheduler.step(output, t, x, return_dict=False, **extra)[0]
    run.latents = x
    return run


def pipeline(name: str, with_scheduler: Any, device: torch.device) -> Any:
    """A StableDiffusionPipeline, or its Img2Img sister, of the network and a scheduler alone."""
    return pipeline_of(name, unet=Network(device), scheduler=with_scheduler)


def run_of(pipe: Any, condition: Tensor, *, stop_at: int | None = None, **call: Any) -> Run:
    """Run the pipeline without guidance to latents; watch its network, its steps and its bar."""
    run = Run()

    @contextmanager
    def bar(**_: Any) -> Iterator[Any]:
        yield SimpleNamespace(update=lambda: run.progress.append(len(run.calls) - 1))

    def at_step_end(pipe: Any, i: int, t: Any, values: dict[str, Any]) -> dict[str, Any]:
        run.watched.append((i, t, values["latents"]))
        pipe._interrupt = i == stop_at
        return values

    pipe.progress_bar = bar
    try:
        with watched(pipe, run.calls, run.steps):
            run.latents = pipe(
                prompt_embeds=condition,
                guidance_scale=1.0,
                output_type="latent",
                callback_on_step_end=at_step_end,
                **call,
            ).images
    finally:
        del pipe.progress_bar
    return run
