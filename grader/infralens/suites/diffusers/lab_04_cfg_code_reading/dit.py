"""DiTPipeline's first turn, with a network that answers what it is told to."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from infralens.examiner import quiet_transformers
from infralens.suites import schedulers


@dataclass(frozen=True)
class Turn:
    """What the network was asked about, and what the scheduler was then given."""

    class_labels: Tensor
    model_output: Tensor


class SchedulerReachedError(Exception):
    """The pipeline has come to its scheduler's step, which is as far as it need go."""


class Answering(torch.nn.Module):
    """Stands where DiTPipeline has its transformer: one answer, of any height and width."""

    def __init__(self, answer: Tensor) -> None:
        super().__init__()
        self.answer, self.device, self.dtype = answer, answer.device, answer.dtype
        channels = answer.shape[1] // 2
        self.config = SimpleNamespace(
            sample_size=4, in_channels=channels, out_channels=2 * channels
        )
        self.class_labels: Any = None

    def forward(self, latents: Tensor, timestep: Tensor, class_labels: Tensor) -> Any:
        self.class_labels = class_labels
        return SimpleNamespace(sample=self.answer)


def first_turn(output: Tensor, scale: float, label: int = 0) -> Turn:
    """Run DiTPipeline until its scheduler is given what guidance makes of `output` (2B, 2C, H, W).

    Half of the batch is asked about `label`, the other half about the null class 1000.
    """
    quiet_transformers()
    from diffusers import DiTPipeline

    handed: list[Tensor] = []

    def step(model_output: Tensor, *_: Any) -> None:
        handed.append(model_output)
        raise SchedulerReachedError

    network, scheduler = Answering(output), schedulers.scheduler("DDIMScheduler")
    scheduler.step = step
    pipe = DiTPipeline(transformer=network, vae=None, scheduler=scheduler)
    pipe.set_progress_bar_config(disable=True)
    try:
        pipe([label] * (len(output) // 2), guidance_scale=scale, num_inference_steps=1)
    except SchedulerReachedError:
        return Turn(network.class_labels, handed[0])
    raise LookupError("DiTPipeline never came to its scheduler")
