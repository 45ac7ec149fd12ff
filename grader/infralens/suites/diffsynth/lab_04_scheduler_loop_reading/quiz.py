"""Lab 04 of diffsynth: the reading checkpoints, answered by diffusers."""

from __future__ import annotations

from types import SimpleNamespace

import torch
from diffusers.guiders import ClassifierFreeGuidance
from diffusers.utils import logging
from diffusers.utils.torch_utils import randn_tensor

from infralens.examiner import quiet_transformers
from infralens.quiz import question
from infralens.suites import schedulers
from infralens.suites.diffsynth.lab_04_scheduler_loop_reading import tiny

logging.set_verbosity_error()  # each guider says that guiders are experimental


def run_from_text(name: str, steps: int) -> tiny.Run:
    """StableDiffusionPipeline with this scheduler, watched."""
    pipe = tiny.pipeline("StableDiffusionPipeline", schedulers.scheduler(name), torch.device("cpu"))
    return tiny.run_of(
        pipe,
        torch.zeros(1, 3, tiny.WIDTH),
        latents=torch.zeros(1, tiny.CHANNELS, 2, 4),
        num_inference_steps=steps,
        height=16,
        width=32,
    )


@question(
    "HeunDiscreteScheduler, 5 steps: after which iterations of the loop, counted from 0, does the "
    "bar of StableDiffusionPipeline move?"
)
def bar_of_heun() -> tuple[int, ...]:
    """Nine iterations, two for every step but the last. The bar moves when a step is whole, and at
    the end."""
    return tuple(run_from_text("HeunDiscreteScheduler", 5).progress)


@question(
    "StableDiffusionImg2ImgPipeline, HeunDiscreteScheduler, 10 steps, strength 0.55: how many "
    "times is the UNet called?"
)
def calls_from_an_image() -> int:
    """int(5.5) = 5 steps are made. Of Heun's 19 timesteps 5 · 2 are cut off: 9 calls."""
    pipe = tiny.pipeline(
        "StableDiffusionImg2ImgPipeline",
        schedulers.scheduler("HeunDiscreteScheduler"),
        torch.device("cpu"),
    )
    run = tiny.run_of(
        pipe,
        torch.zeros(1, 3, tiny.WIDTH),
        image=torch.zeros(1, tiny.CHANNELS, 2, 4),
        num_inference_steps=10,
        strength=0.55,
    )
    return len(run.calls)


@question(
    "StableDiffusion3Img2ImgPipeline, 10 steps, strength 0.55: how many steps does it make? "
    "(It rounds down what is cut off.)"
)
def steps_of_stable_diffusion_3() -> int:
    """int(10 − 5.5) = 4 steps are cut off, 6 are made: one more than Stable Diffusion 1 makes of
    the same numbers."""
    quiet_transformers()
    from diffusers import StableDiffusion3Img2ImgPipeline

    scheduler = schedulers.scheduler("FlowMatchEulerDiscreteScheduler")
    scheduler.set_timesteps(10)
    pipe = SimpleNamespace(scheduler=scheduler)
    return int(StableDiffusion3Img2ImgPipeline.get_timesteps(pipe, 10, 0.55, "cpu")[1])


@question(
    "ClassifierFreeGuidance(start=0.25, stop=0.75), 10 steps: which iterations, counted from 0, "
    "are guided?"
)
def guided_turns() -> tuple[int, ...]:
    """int(2.5) = 2 up to int(7.5) = 7, which is no longer guided. ControlNet's rule for the same
    numbers is another: 3 to 6."""
    guider, on = ClassifierFreeGuidance(start=0.25, stop=0.75), []
    for i in range(10):
        guider.set_state(step=i, num_inference_steps=10, timestep=torch.tensor(0))
        if guider._is_cfg_enabled():
            on.append(i)
    return tuple(on)


@question(
    "One generator with seed 7 draws noise for a batch of three; a new one with seed 7 draws noise "
    "for one image. How many images of the batch have the single image's noise?"
)
def images_made_again() -> int:
    """Only the first. The others are the numbers that follow, so they hang on their place in the
    batch. A list of generators, one an image, makes each repeatable."""
    batch = randn_tensor((3, 4, 8, 8), generator=torch.Generator().manual_seed(7))
    single = randn_tensor((1, 4, 8, 8), generator=torch.Generator().manual_seed(7))
    return sum(torch.equal(image, single[0]) for image in batch)


@question(
    "A generator of the GPU is given for a tensor that is wanted on the CPU. What does "
    "randn_tensor do?",
    choices=("it draws on the GPU and copies", "it draws on the CPU", "it raises ValueError"),
)
def generator_of_the_gpu() -> str:
    """A CPU generator serves every device: the numbers are drawn on the CPU and moved. The other
    way round is an error, and the two kinds of generator give different numbers for one seed."""
    generator = SimpleNamespace(device=torch.device("cuda"))  # asked for its device, then refused
    try:
        randn_tensor((1, 2), generator=generator, device=torch.device("cpu"))
    except ValueError:
        return "it raises ValueError"
    return "it draws on the CPU"
