"""Lab 04: the reading checkpoints, answered by diffusers."""

from __future__ import annotations

import torch
from diffusers.guiders import ClassifierFreeGuidance
from diffusers.utils import logging

from infralens.examiner import library_function
from infralens.quiz import question
from infralens.suites import schedulers
from infralens.suites.diffusers.lab_04_cfg_code_reading import dit, tiny

logging.set_verbosity_error()  # each guider says that guiders are experimental


@question(
    "The unconditional prediction is 0.2, the conditional one 0.6. "
    "What is the guided one at scale 7.5?"
)
def guided_number() -> float:
    """0.2 + 7.5 · (0.6 − 0.2): far beyond the conditional prediction. Guidance extrapolates."""
    guider = ClassifierFreeGuidance(guidance_scale=7.5)
    return float(guider.forward(torch.tensor(0.6), torch.tensor(0.2))[0])


@question(
    "A paper writes c + w·(c − u) and uses w = 4. Which guidance_scale of diffusers is the same?"
)
def counted_as_diffusers_does() -> float:
    """The paper counts from the conditional prediction, diffusers from the unconditional one: its
    scale is w + 1. A guider can be told which (use_original_formulation)."""
    uncond, cond = torch.tensor(1.0), torch.tensor(2.0)
    guider = ClassifierFreeGuidance(guidance_scale=4.0, use_original_formulation=True)
    return float((guider.forward(cond, uncond)[0] - uncond) / (cond - uncond))


def rows_seen(name: str, steps: int, prompts: int, scale: float) -> int:
    """How many rows the UNet of a tiny StableDiffusionPipeline works on in a whole run."""
    pipe = tiny.pipeline(schedulers.scheduler(name))
    embeds = torch.zeros(prompts, 5, tiny.EMBED_WIDTH)
    run = tiny.run_of(
        pipe,
        torch.zeros(prompts, tiny.LATENT_CHANNELS, 2, 4),
        prompt_embeds=embeds,
        negative_prompt_embeds=embeds,
        guidance_scale=scale,
        num_inference_steps=steps,
    )
    return sum(len(latents) for latents, *_ in run.calls)


@question(
    "StableDiffusionPipeline, three prompts, PNDM, 10 steps, guidance_scale 7.5: how many rows "
    "does the UNet work on in the whole run, all calls together?"
)
def rows_with_guidance() -> int:
    """11 calls, each of 2 · 3 rows. The number of calls is the scheduler's (PNDM has one timestep
    more than steps), the factor of 2 is guidance's."""
    return rows_seen("PNDMScheduler", 10, 3, 7.5)


@question("The same run with guidance_scale 0.5 instead of 7.5: how many rows now?")
def rows_without_guidance() -> int:
    """11 calls of 3 rows: at 1 and below the pipeline switches guidance off. Its 0.5 is the same as
    its 1."""
    return rows_seen("PNDMScheduler", 10, 3, 0.5)


@question(
    "A guided prediction has standard deviation 3, the conditional one 1. What does it have after "
    "rescale_noise_cfg with guidance_rescale 0.7?"
)
def rescaled_deviation() -> float:
    """0.7 of the way from 3 to 1: the same prediction, times 0.7 · 1/3 + 0.3."""
    rescale = library_function(
        "pipelines/stable_diffusion/pipeline_stable_diffusion.py", "rescale_noise_cfg"
    )
    cond = torch.linspace(-1, 1, 100).reshape(1, 100)
    cond = cond / cond.std()
    return float(rescale(3 * cond, cond, 0.7).std())


@question(
    "Which half of the batch does DiTPipeline fill with the class that was asked for?",
    choices=("the first", "the second"),
)
def conditional_half_of_dit() -> str:
    """DiTPipeline joins [class, null]; Stable Diffusion joins [negative, prompt]. Either is right
    as long as joining and splitting agree."""
    turn = dit.first_turn(torch.zeros(2, 8, 4, 4), scale=4.0, label=7)
    return "the first" if turn.class_labels[0] == 7 else "the second"
