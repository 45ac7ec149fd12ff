"""The shipped networks as pictures are drawn with them: loaded here, for what a learner decides."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from infralens.shapes import FOLDER
from infralens.shapes.sampling import load_pipeline

LATENTS = (4, 8, 8)  # of one picture


@dataclass(frozen=True)
class Prompted:
    """A pipeline, and both halves of guidance for one prompt: what a run begins with."""

    pipe: Any
    prompt: str
    embeds: Tensor  # (2, L, D), the unconditional half first
    noise: Tensor  # (1, 4, 8, 8)

    def run(self, predict: Any, steps: int, scale: float) -> Tensor:
        """The picture (3, 32, 32) by `predict(both halves of the latents, i, t) → ` their noise."""
        scheduler = self.pipe.scheduler
        scheduler.set_timesteps(steps)
        x = self.noise
        for i, t in enumerate(scheduler.timesteps):
            negative, positive = predict(torch.cat([x, x]), i, t).chunk(2)
            output = negative + scale * (positive - negative)
            x = scheduler.step(output, t, x).prev_sample
        image: Tensor = self.pipe.vae.decode(x / self.pipe.vae.config.scaling_factor).sample[0]
        return image


def prompted(prompt: str, seed: int) -> Prompted:
    """A pipeline of its own (it may be changed), and the noise of this seed."""
    pipe = load_pipeline(FOLDER)
    positive, negative = pipe.encode_prompt(prompt, pipe.device, 1, True)
    noise = torch.randn((1, *LATENTS), generator=torch.Generator().manual_seed(seed))
    return Prompted(pipe, prompt, torch.cat([negative, positive]), noise)
