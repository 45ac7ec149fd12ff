"""Schedulers over a short table, as pipelines have them; lent ones; what pipelines give theirs."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from diffusers import (
    DDIMScheduler,
    EulerAncestralDiscreteScheduler,
    EulerDiscreteScheduler,
    FlowMatchEulerDiscreteScheduler,
    HeunDiscreteScheduler,
    PNDMScheduler,
)

from infralens.examiner import Namespace

SCHEDULERS = {
    kind.__name__: kind
    for kind in (
        DDIMScheduler,
        EulerDiscreteScheduler,
        EulerAncestralDiscreteScheduler,
        HeunDiscreteScheduler,
        PNDMScheduler,
        FlowMatchEulerDiscreteScheduler,
    )
}
STEPS_OF_TRAINING = 100
# As Stable Diffusion's, in a tenth of the training steps: a run along all of them is still short.
TABLE: dict[str, Any] = {
    "num_train_timesteps": STEPS_OF_TRAINING,
    "beta_start": 0.0085,
    "beta_end": 0.12,
    "beta_schedule": "scaled_linear",
    "steps_offset": 1,
}
STEP = ("model_output", "timestep", "sample")


def scheduler(name: str, **config: Any) -> Any:
    """A scheduler as Stable Diffusion (or Flux) has it; `config` changes fields."""
    usual: dict[str, Any] = {
        "DDIMScheduler": {**TABLE, "clip_sample": False, "set_alpha_to_one": False},
        "PNDMScheduler": {**TABLE, "skip_prk_steps": True},
        "FlowMatchEulerDiscreteScheduler": {"num_train_timesteps": STEPS_OF_TRAINING},
    }.get(name, TABLE)
    return SCHEDULERS[name].from_config({**usual, **config})


def twin(of: Any) -> Any:
    """Another scheduler of the same class and configuration, at the beginning of its life."""
    return type(of).from_config(of.config)


@functools.cache
def signature_of(function: Any) -> inspect.Signature:
    """The signature of a function, of a class's method with its `self`. Reading it takes time."""
    return inspect.signature(function)


class LentScheduler:
    """A scheduler as the learner sees it. `steps` keeps (model_output, t, sample) of each step."""

    def __init__(self, target: Any) -> None:
        self.target = target
        self.steps: list[tuple[Any, ...]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self.target, name)

    def set_timesteps(self, *args: Any, **kwargs: Any) -> None:
        given = signature_of(type(self.target).set_timesteps).bind(self.target, *args, **kwargs)
        device = given.arguments.get("device")
        if device is not None and torch.device(device).type == "meta":
            raise ValueError("timesteps on the device 'meta' have no numbers")
        self.target.set_timesteps(*args, **kwargs)

    def step(self, *args: Any, **kwargs: Any) -> Any:
        given = signature_of(type(self.target).step).bind(self.target, *args, **kwargs)
        self.steps.append(tuple(given.arguments[name] for name in STEP))
        as_tuple = given.arguments.get("return_dict") is False
        given.arguments["return_dict"] = False
        with torch.no_grad():
            sample = type(self.target).step(*given.args, **given.kwargs)[0]
        return (sample,) if as_tuple else Namespace({"prev_sample": sample})


@contextmanager
def watched(
    pipe: Any, calls: list[tuple[Any, ...]], steps: list[tuple[Any, ...]]
) -> Iterator[None]:
    """While it lasts, what the pipeline gives its UNet and its scheduler's step is noted.

    A call is (latents, t, embeddings), a step (model_output, t, sample).
    """
    step = pipe.scheduler.step

    @functools.wraps(step)  # the pipeline reads the signature
    def watched_step(*args: Any, **kwargs: Any) -> Any:
        steps.append(args[: len(STEP)])
        return step(*args, **kwargs)

    def note(_: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        calls.append((*args, kwargs["encoder_hidden_states"]))

    hook = pipe.unet.register_forward_pre_hook(note, with_kwargs=True)
    pipe.scheduler.step = watched_step
    try:
        yield
    finally:
        hook.remove()
        del pipe.scheduler.step
