"""Lab 10 of diffsynth: the reading checkpoints, answered by the libraries."""

from __future__ import annotations

import functools
from typing import Any

import torch
from diffusers import EulerDiscreteScheduler, HeunDiscreteScheduler

from infralens import shapes
from infralens.quiz import question
from infralens.suites.diffsynth.lab_10_end_to_end_inference_trace import watching

PROMPT = "a large red circle on black background"
STAGES = ("encode", "denoise", "step", "decode", "output")


@functools.cache
def kit() -> Any:
    """The kit's own pipeline."""
    from infralens.shapes.sampling import load_pipeline

    shapes.quiet()
    return load_pipeline(shapes.FOLDER)


def events_of(pipe: Any, prompt: Any, steps: int, **call: Any) -> list[watching.Event]:
    """The events of a run with seed 0."""
    return watching.watched(pipe, prompt, steps, torch.Generator().manual_seed(0), call).events


def with_scheduler(kind: Any) -> Any:
    """The kit's networks with a scheduler of another class."""
    pipe = kit()
    scheduler = kind.from_config(pipe.scheduler.config)
    made = type(pipe)(**{**pipe.components, "scheduler": scheduler}, requires_safety_checker=False)
    made.set_progress_bar_config(disable=True)
    return made


@question(
    "StableDiffusionPipeline with HeunDiscreteScheduler, 5 steps, guidance on, one prompt: how "
    "many events does its trace have, output included?"
)
def events_of_heun() -> int:
    """Two encodes (prompt and negative prompt), 2 · 5 − 1 = 9 iterations of denoise and step, a
    decode, and the output: 2 + 18 + 1 + 1."""
    return len(events_of(with_scheduler(HeunDiscreteScheduler), PROMPT, 5, guidance_scale=4.0))


@question(
    "What is the shape of the kit's UNet's result (shapes.FOLDER) for two prompts at guidance 4, "
    "32 × 24 pixels high and wide?"
)
def shape_of_the_guess() -> tuple[int, ...]:
    """Twice two rows for guidance, four channels, and the sides divided by 4, which is this VAE's
    factor."""
    events = events_of(kit(), [PROMPT] * 2, 1, guidance_scale=4.0, height=32, width=24)
    return tuple(next(event["shape"] for event in events if event["stage"] == "denoise"))


@question(
    "A forward hook stands on the VAE of a StableDiffusionPipeline. How often does it fire in one "
    "call of the pipeline?"
)
def hooks_on_the_vae() -> int:
    """Never. The pipeline calls vae.decode, which is a method beside forward; hooks belong to
    forward. A hook on vae.decoder would fire, but misses what decode does before it."""
    fired: list[int] = []
    hook = kit().vae.register_forward_hook(lambda *_: fired.append(1))
    try:
        events_of(kit(), PROMPT, 1)
    finally:
        hook.remove()
    return len(fired)


@question(
    "Two runs of the kit's pipeline differ in guidance_scale alone, 3 and 4. At which stage is the "
    "first event whose mean_abs differs?",
    choices=STAGES,
)
def guidance_parts_at() -> str:
    """The network's first answers are the same: it does not know the scale. The scale is used
    between denoise and step, so the first step is where the runs part."""
    runs = (events_of(kit(), PROMPT, 2, guidance_scale=scale) for scale in (3.0, 4.0))
    return str(next(a["stage"] for a, b in zip(*runs, strict=True) if parted(a, b)))


def parted(one: watching.Event, two: watching.Event) -> bool:
    return bool(abs(one["mean_abs"] - two["mean_abs"]) > 1e-3 * two["mean_abs"])


@question(
    "A wrapper def step(*args, **kwargs) without functools.wraps stands over the step of Euler "
    "ancestral. How many of the arguments eta and generator does StableDiffusionPipeline still "
    "pass to it?"
)
def arguments_behind_a_wrapper() -> int:
    """None. The pipeline reads the signature of step, finds neither name in it, and passes
    neither. The steps then draw their noise from torch's global generator."""
    from diffusers import EulerAncestralDiscreteScheduler

    pipe = with_scheduler(EulerAncestralDiscreteScheduler)
    inner = pipe.scheduler.step
    passed: set[str] = set()

    def step(*args: Any, **kwargs: Any) -> Any:
        passed.update(kwargs)
        return inner(*args, **kwargs)

    pipe.scheduler.step = step
    watching.ours().plain_run(pipe, PROMPT, 2, torch.Generator().manual_seed(0), {})
    return len(passed & {"eta", "generator"})


@question(
    "With Euler, a loop writes the scaled input over its latents; the noise was multiplied. At "
    "which stage is the first event that differs from a right loop's?",
    choices=STAGES,
)
def overwritten_latents() -> str:
    """The first denoise sees the scaled input in both loops. The first step starts from the
    latents in the one and from the scaled input in the other."""
    told = []
    for overwriting in (False, True):
        scheduler = EulerDiscreteScheduler()
        scheduler.set_timesteps(4)
        x = torch.randn(1, 4, 8, 8, generator=torch.Generator().manual_seed(0))
        x, events = x * scheduler.init_noise_sigma, []
        for t in scheduler.timesteps:
            seen = scheduler.scale_model_input(x, t)
            x = seen if overwriting else x
            output = torch.tanh(seen)  # a network of one line
            x = scheduler.step(output, t, x).prev_sample
            events += [("denoise", output.abs().mean()), ("step", x.abs().mean())]
        told.append(events)
    return str(next(a[0] for a, b in zip(*told, strict=True) if not torch.isclose(a[1], b[1])))
