"""Draws pictures with a pipeline: many prompts in batches, one seed for each picture."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from diffusers import ControlNetModel, StableDiffusionControlNetPipeline, StableDiffusionPipeline
from PIL import Image

from infralens.shapes import FOLDER


@dataclass(frozen=True)
class Request:
    """How to sample; a control scale is used only together with control pictures."""

    steps: int = 25
    guidance_scale: float = 4.0
    batch: int = 40
    control_scale: float = 1.0


def load_pipeline(folder: Path, device: str = "cpu") -> StableDiffusionPipeline:
    """Load a pipeline folder without touching the network."""
    pipe = StableDiffusionPipeline.from_pretrained(folder, local_files_only=True)
    pipe.set_progress_bar_config(disable=True)
    return pipe.to(device)


def with_controlnet(
    pipe: StableDiffusionPipeline, folder: Path
) -> StableDiffusionControlNetPipeline:
    """The same networks with a ControlNet from `folder` beside them."""
    controlnet = ControlNetModel.from_pretrained(folder, local_files_only=True)
    controlled = StableDiffusionControlNetPipeline(
        **pipe.components, controlnet=controlnet.to(pipe.device), requires_safety_checker=False
    )
    controlled.set_progress_bar_config(disable=True)
    return controlled


@lru_cache(maxsize=1)
def shipped_pipeline() -> StableDiffusionPipeline:
    """The shipped pipeline, loaded once for each process."""
    return load_pipeline(FOLDER)


def sample(
    pipe: Any,
    prompts: Sequence[str],
    seeds: Sequence[int],
    request: Request,
    negative_prompts: Sequence[str] | None = None,
    controls: Sequence[Image.Image] | None = None,
) -> list[Image.Image]:
    """One picture for each prompt and seed, in order.

    The starting noise depends on the picture's own seed alone, so how the pictures are batched
    changes them by rounding at most.
    """
    with one_thread(pipe.device):
        return _sampled(pipe, prompts, seeds, request, negative_prompts, controls)


@contextmanager
def one_thread(device: torch.device) -> Iterator[None]:
    """On the CPU such small tensors take twelve times as long where threads have to meet."""
    before = torch.get_num_threads()
    torch.set_num_threads(1 if device.type == "cpu" else before)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _sampled(
    pipe: Any,
    prompts: Sequence[str],
    seeds: Sequence[int],
    request: Request,
    negative_prompts: Sequence[str] | None,
    controls: Sequence[Image.Image] | None,
) -> list[Image.Image]:
    pictures: list[Image.Image] = []
    for start in range(0, len(prompts), request.batch):
        part = slice(start, start + request.batch)
        extra: dict[str, Any] = {}
        if controls is not None:
            extra["image"] = list(controls[part])
            extra["controlnet_conditioning_scale"] = request.control_scale
        if negative_prompts is not None:
            extra["negative_prompt"] = list(negative_prompts[part])
        pictures += pipe(
            list(prompts[part]),
            num_inference_steps=request.steps,
            guidance_scale=request.guidance_scale,
            generator=[torch.Generator().manual_seed(seed) for seed in seeds[part]],
            **extra,
        ).images
    return pictures
