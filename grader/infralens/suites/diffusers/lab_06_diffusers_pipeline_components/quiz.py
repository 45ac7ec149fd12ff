"""Lab 06: the reading checkpoints, answered by the live library."""

from __future__ import annotations

import warnings
from types import SimpleNamespace
from typing import Any

import torch
from diffusers import DDIMScheduler, EulerDiscreteScheduler, HeunDiscreteScheduler
from diffusers.utils import logging

from infralens.examiner import Draw, quiet_transformers
from infralens.quiz import question
from infralens.suites.diffusers.lab_06_diffusers_pipeline_components import tiny
from infralens.suites.pipelines import pipeline_of

logging.set_verbosity_error()  # a pipeline's constructor has much advice
quiet_transformers()


def pipeline(scheduler: Any) -> Any:
    """A tiny StableDiffusionPipeline, loaded from a folder."""
    return tiny.pipeline(tiny.drawn_files(Draw(0, "quiz"), scheduler), "cpu")


@question("CLIP's tokenizer has model_max_length 77. How many tokens of a prompt fit?")
def tokens_that_fit() -> int:
    """75: the first place is taken by the start token, the last one by the end token."""
    tokenizer = tiny.tokenizer()
    return 77 - int(tokenizer.num_special_tokens_to_add())


@question(
    "StableDiffusionPipeline, two prompts with negative prompts, three images each, guidance_scale "
    "5. How many rows of text embeddings is the UNet given?"
)
def rows_of_text() -> int:
    """2 · 2 · 3: prompts times images, and each once more for the negative half."""
    pipe = pipeline(tiny.scheduler("DDIMScheduler"))
    rows: list[int] = []

    def watch(_: Any, args: Any, kwargs: dict[str, Any]) -> None:
        rows.append(len(kwargs["encoder_hidden_states"]))

    pipe.unet.register_forward_pre_hook(watch, with_kwargs=True)
    words = {"prompt": ["a cat", "a dog"], "negative_prompt": ["red", "blue"]}
    pipe(
        **words,
        num_images_per_prompt=3,
        guidance_scale=5.0,
        num_inference_steps=1,
        height=8,
        width=8,
        output_type="latent",
    )
    return rows[0]


@question(
    "Which beta schedule does EulerDiscreteScheduler() have, made without a configuration?",
    choices=("linear", "scaled_linear", "squaredcos_cap_v2"),
)
def betas_of_a_new_scheduler() -> str:
    """Linear, whereas Stable Diffusion was trained with scaled_linear betas. Nothing fails: the
    picture is only worse. from_config takes the trained one along."""
    return str(EulerDiscreteScheduler().config.beta_schedule)


@question("Image to image with Heun, 10 steps, strength 0.75. How many times is the UNet called?")
def calls_of_image_to_image() -> int:
    """int(7.5) = 7 steps are left and 3 are skipped, which are 6 of Heun's 19 timesteps: 13."""
    from diffusers import StableDiffusionImg2ImgPipeline

    scheduler = HeunDiscreteScheduler()
    scheduler.set_timesteps(10)
    self = SimpleNamespace(scheduler=scheduler)
    left, _ = StableDiffusionImg2ImgPipeline.get_timesteps(self, 10, 0.75, torch.device("cpu"))
    return len(left)


@question(
    "DDIMScheduler() has steps_offset 0. A StableDiffusionPipeline is made with it. What is "
    "pipe.scheduler.config.steps_offset?"
)
def offset_afterwards() -> int:
    """1. The constructor mends configurations that it thinks outdated (clip_sample becomes False as
    well), in the scheduler that it was given. A scheduler set afterwards is not mended."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it says what it does
        pipe = pipeline_of("StableDiffusionPipeline", scheduler=DDIMScheduler())
    return int(pipe.scheduler.config.steps_offset)


@question(
    "other = StableDiffusionImg2ImgPipeline.from_pipe(pipe). Do both pipelines use one and the "
    "same scheduler object?"
)
def one_scheduler() -> bool:
    """Yes, as all other components. Timesteps that one of them sets are the other's too; give one
    of them a scheduler made with from_config."""
    from diffusers import StableDiffusionImg2ImgPipeline

    pipe = pipeline(tiny.scheduler("DDIMScheduler"))
    return StableDiffusionImg2ImgPipeline.from_pipe(pipe).scheduler is pipe.scheduler
