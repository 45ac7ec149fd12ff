"""Runs beside the learner's code: objects that feel like schedulers of diffusers.

The scheduler itself stays where the picture is drawn; each answer is asked from there. This file's
text is handed over, and holds no answers.
"""

from __future__ import annotations

from typing import Any


class Output:
    """What `step` returns."""

    def __init__(self, prev_sample: Any) -> None:
        self.prev_sample = prev_sample

    def __getitem__(self, index: int) -> Any:
        return (self.prev_sample,)[index]


class Flow:
    """A scheduler without init_noise_sigma and scale_model_input."""

    def __init__(self, lent: Any) -> None:
        self._lent = lent

    timesteps = property(lambda self: self._lent.timesteps)
    sigmas = property(lambda self: self._lent.sigmas)
    order = property(lambda self: self._lent.order)

    def set_timesteps(self, num_inference_steps: int) -> None:
        self._lent.set_timesteps(num_inference_steps)

    def set_begin_index(self, begin_index: int) -> None:
        self._lent.set_begin_index(begin_index)

    def step(self, model_output: Any, timestep: Any, sample: Any, generator: Any = None) -> Output:
        return Output(self._lent.step(model_output, timestep, sample))


class Discrete(Flow):
    """A scheduler that has both."""

    init_noise_sigma = property(lambda self: self._lent.init_noise_sigma)

    def scale_model_input(self, sample: Any, timestep: Any) -> Any:
        return self._lent.scale_model_input(sample, timestep)


def scheduler(lent: Any, discrete: bool) -> Any:
    """An object that asks `lent` for everything."""
    return Discrete(lent) if discrete else Flow(lent)
