"""The reading checkpoints of diffsynth/09, answered by diffusers."""

from __future__ import annotations

from typing import Any

import torch
from diffusers import MultiAdapter

from infralens.quiz import question
from infralens.suites import schedulers
from infralens.suites.diffsynth.lab_09_multi_control import live


@question(
    "Three adapters without weights in MultiAdapter, whose features are 1, 2 and 6 at some place: "
    "what is there afterwards?"
)
def merged_without_weights() -> float:
    """Their mean, 3: several ControlNets would be added up to 9."""

    class Says(torch.nn.Module):
        total_downscale_factor = downscale_factor = 1

        def __init__(self, value: float) -> None:
            super().__init__()
            self.value = value

        def forward(self, picture: torch.Tensor) -> list[torch.Tensor]:
            return [picture + self.value]

    merged = MultiAdapter([Says(1), Says(2), Says(6)])(torch.zeros(3, 1))
    return round(float(merged[0]), 4)


@question("A mask of 480 × 832 (height first) in a layer of 1,560 queries: how many rows?")
def rows_of_a_region() -> int:
    """√(1,560 / (832 / 480)) is 30, and 30 · 52 is 1,560."""
    steps = (torch.arange(480) // 16).float()[:, None].expand(480, 832)
    weights = live.downsampled(steps.contiguous(), 1560)
    columns = int((weights == weights[0]).sum())
    return 1560 // columns


@question("Which of an inpainting UNet's nine channels, counted from 0, is the mask?")
def channel_of_the_mask() -> int:
    """After the four of the latents, before the four of the hidden picture."""
    latents, mask = torch.full((1, 4, 1, 1), 5.0), torch.ones(1, 1, 8, 8)
    run = live.inpainted(
        latents,
        torch.zeros(1, 3, 8, 8),
        mask,
        schedulers.scheduler("DDIMScheduler"),
        masked_image_latents=latents + 2,
        prompt_embeds=torch.zeros(1, 2, live.TEXT),
        guidance_scale=1.0,
        num_inference_steps=1,
    )
    channels: list[float] = run.calls[0][0][0, :, 0, 0].tolist()
    return channels.index(1.0)


@question(
    "InstructPix2Pix with both scales at 4: how many of its three predictions are left in the "
    "result?"
)
def predictions_that_are_left() -> int:
    """Two: the one for the picture alone cancels, p₀ + 4·(p₂ − p₀)."""
    latents, image = torch.randn(2, 1, 4, 2, 2)
    run = live.instructed(latents, image, torch.randn(1, 2, live.TEXT), (4.0, 4.0))
    x, t, states = run.calls[0]
    said, picture, nothing = live.predict(x, t, states).chunk(3)
    left = torch.stack([nothing.flatten(), picture.flatten(), said.flatten()], dim=1)
    shares = torch.linalg.lstsq(left.double(), run.steps[0][0].flatten().double()).solution
    return int((shares.abs() > 1e-3).sum())


@question(
    "Euler, 10 steps, three ControlNets with the windows 0 to 1, 0 to .5 and .25 to .75: how often "
    "does the pipeline call ControlNets, and how often must they be called?"
)
def calls_of_controlnets() -> tuple[int, int]:
    """Each of three in each of ten; 10 + 5 + 4 have a say."""
    windows = [(0.0, 1.0), (0.0, 0.5), (0.25, 0.75)]
    controls = [{"weight": 1.0, "start": start, "end": end} for start, end in windows]
    scales: list[float] = []

    def note(_: Any, __: Any, told: dict[str, Any]) -> None:
        scales.append(told["conditioning_scale"])

    hooks = [
        live.controlnet(number).register_forward_pre_hook(note, with_kwargs=True)
        for number in range(3)
    ]
    embeds = torch.zeros(1, 2, live.TEXT)
    try:
        live.controlled(
            torch.zeros(1, 4, 4, 4),
            (embeds, embeds),
            [torch.zeros(1, 3, 8, 8)] * 3,
            controls,
            schedulers.scheduler("EulerDiscreteScheduler"),
            3.0,
            10,
        )
    finally:
        for hook in hooks:
            hook.remove()
    return len(scales), sum(scale != 0 for scale in scales)


@question(
    "A pixel lies in two regions. How are the two prompts put together by one bias on the scores?",
    choices=("one softmax over both", "the mean of two attentions", "the last one wins"),
)
def two_prompts_at_once() -> str:
    """All tokens that the row may look at share one softmax."""
    states, text = torch.randn(1, 1, 16), torch.randn(1, 4, live.TEXT)
    both = live.biased(states, text, torch.zeros(1, 4))
    first, second = (live.one_by_one(states, text, [own]) for own in ([0, 1], [2, 3]))
    if torch.allclose(both, (first + second) / 2, atol=1e-4):
        return "the mean of two attentions"
    if torch.allclose(both, second, atol=1e-4):
        return "the last one wins"
    return "one softmax over both"
