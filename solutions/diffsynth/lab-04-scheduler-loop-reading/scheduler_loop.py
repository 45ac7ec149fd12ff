"""Lab 04 · Scheduler loop reading: the few lines that every pipeline turns on.

Goal: see the loop as the spine of an inference trace. The scheduler's timesteps say how often it
turns, the denoiser is asked once an iteration, and the latents are the state that goes on.
Everything else (guidance, a progress bar, an image to start from, one seed an image) is a small
change to these lines, and each change has one place.

Symbols: B = images in the batch, C, H, W = channels, height and width of the latents, n = steps
asked for, t = a timestep, i = the number of an iteration, from 0.

The denoiser is a function (latents, t, condition) -> prediction, shaped like the latents. Call it
by position; t may go as it comes from the scheduler or as a number.

A scheduler here is as in diffusers: DDIM, Euler, Euler ancestral, Heun, PNDM or FlowMatchEuler.

    set_timesteps(n)                    lays out the run
    timesteps                           1-d tensor, noisiest first; not always n long
    order                               denoiser calls a step: 2 for Heun, 1 for the others
    step(model_output, t, sample)       .prev_sample is the next state; some take a generator
    init_noise_sigma                    not on FlowMatchEuler
    scale_model_input(sample, t)        not on FlowMatchEuler
    set_begin_index(index)              not on DDIM and PNDM
    add_noise(original, noise, timesteps)         not on FlowMatchEuler, which has
    scale_noise(sample, timesteps, noise)         with the last two the other way round

`diffusers` cannot be imported in this file: what is asked is written in torch.
"""

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

# What predicts: denoiser(latents, t, condition) -> prediction, shaped like the latents.
Denoiser = Callable[[Tensor, Any, Tensor], Tensor]
# What watches: on_step(i, t, latents); a result of True asks the run to stop.
OnStep = Callable[[int, Any, Tensor], Any]


def denoise(
    denoiser: Denoiser,
    scheduler: Any,
    latents: Tensor,
    steps: int,
    condition: Tensor,
    generator: torch.Generator | list[torch.Generator] | None,
) -> Tensor:
    """4.1 · The loop: from noise to latents, one call of the denoiser for each timestep.

    scheduler: any of the six; its set_timesteps may have been called before, for another run.
    latents: (B, C, H, W), standard normal, not yet multiplied by anything. condition: (B, L, D).
    generator: None, one, or a list of B, for the steps that draw noise; hand it as it is to `step`,
    and only where `step` has a parameter of that name. Returns (B, C, H, W).

    Once: set_timesteps, and the noise times init_noise_sigma. In an iteration: the denoiser sees
    what scale_model_input makes of the state; step gets the denoiser's answer and the state itself.
    What a scheduler does not have (hasattr) is passed over.

    Source: StableDiffusionPipeline.__call__ and its prepare_extra_step_kwargs.

    >>> from types import SimpleNamespace as Box
    >>> scheduler = Box(timesteps=[2, 1], init_noise_sigma=3.0, set_timesteps=lambda n: None)
    >>> scheduler.scale_model_input = lambda x, t: x / t
    >>> scheduler.step = lambda output, t, x: Box(prev_sample=x - output)
    >>> half = lambda x, t, condition: x / 2 + condition
    >>> denoise(half, scheduler, torch.tensor([[4.0]]), 2, torch.tensor([[1.0]]), None).tolist()
    [[3.0]]
    """
    ### BEGIN SOLUTION
    scheduler.set_timesteps(steps)
    sample = latents * getattr(scheduler, "init_noise_sigma", 1.0)
    extra = {}
    if "generator" in inspect.signature(scheduler.step).parameters:
        extra["generator"] = generator
    for t in scheduler.timesteps:
        seen = sample
        if hasattr(scheduler, "scale_model_input"):
            seen = scheduler.scale_model_input(sample, t)
        output = denoiser(seen, t, condition)
        sample = scheduler.step(output, t, sample, **extra).prev_sample
    return sample
    ### END SOLUTION


def denoise_from(
    denoiser: Denoiser,
    scheduler: Any,
    original: Tensor,
    noise: Tensor,
    strength: float,
    steps: int,
    condition: Tensor,
    generator: torch.Generator | list[torch.Generator] | None,
) -> Tensor:
    """4.2 · The loop begun in its middle: image to image.

    scheduler: any of the six but PNDM. original: (B, C, H, W), clean latents. noise: the same
    shape, standard normal. strength: 0 to 1, the fraction of the run that is made. generator: as in
    4.1. Returns (B, C, H, W).

    Of n steps, int(n·strength) are made, the last ones; none left is a ValueError. The timesteps of
    the n − int(n·strength) steps before them are cut off: that many times `order`. Where there is a
    set_begin_index it is told how many timesteps were cut off. Then add_noise (or scale_noise)
    brings the original to the first timestep that is kept, at strength 1 as well, and the loop of
    4.1 follows. init_noise_sigma plays no part: add_noise knows how much noise a timestep has. It
    wants its timesteps as a tensor, (B,) or (1,), not 0-d.

    Source: Meng et al. 2022 (SDEdit, arXiv 2108.01073); StableDiffusionImg2ImgPipeline.__call__ and
    its get_timesteps. (The pipeline has no sentence for a run without steps.)

    >>> from types import SimpleNamespace as Box
    >>> scheduler = Box(timesteps=torch.tensor([4.0, 3.0, 2.0, 1.0]), order=1)
    >>> scheduler.set_timesteps = scheduler.set_begin_index = lambda number: None
    >>> scheduler.add_noise = lambda x, noise, timesteps: x + timesteps * noise
    >>> scheduler.step = lambda output, t, x: Box(prev_sample=x - output)
    >>> ones = lambda x, t, condition: condition
    >>> x = torch.tensor([[10.0]])
    >>> denoise_from(ones, scheduler, x, x / 10, 0.7, 4, x / 10, None).tolist()
    [[10.0]]
    """
    ### BEGIN SOLUTION
    kept = int(steps * strength)
    if kept < 1:
        raise ValueError(f"strength {strength} leaves none of {steps} steps to make")
    scheduler.set_timesteps(steps)
    cut_off = (steps - kept) * scheduler.order
    remaining = scheduler.timesteps[cut_off:]
    if hasattr(scheduler, "set_begin_index"):
        scheduler.set_begin_index(cut_off)
    level = remaining[:1].repeat(len(original))
    if hasattr(scheduler, "add_noise"):
        state = scheduler.add_noise(original, noise, level)
    else:
        state = scheduler.scale_noise(original, level, noise)
    drawing = "generator" in inspect.signature(scheduler.step).parameters
    options = {"generator": generator} if drawing else {}
    for moment in remaining:
        scaled = state
        if hasattr(scheduler, "scale_model_input"):
            scaled = scheduler.scale_model_input(state, moment)
        answer = denoiser(scaled, moment, condition)
        state = scheduler.step(answer, moment, state, **options).prev_sample
    return state
    ### END SOLUTION


def denoise_watched(
    denoiser: Denoiser,
    scheduler: Any,
    latents: Tensor,
    steps: int,
    condition: Tensor,
    on_step: OnStep,
) -> tuple[Tensor, list[int]]:
    """4.3 · The loop of 4.1 with somebody looking on: a callback, and a progress bar.

    scheduler: DDIM, Euler, Heun or PNDM. The rest is as in 4.1, without a generator. After every
    step, on_step(i, t, latents) is called by position: the iteration's number, its timestep and
    the state that step made. When it returns True, no further iteration is made.

    Returns (latents, progress). latents: (B, C, H, W), the state after the last iteration made.
    progress: the numbers i of the iterations after which a bar of n steps moves on, in order. With
    warmup = len(timesteps) − n·order those are the iterations where

        i + 1 > warmup and (i + 1) is a multiple of order,  or  i is the last of all timesteps.

    The iteration that on_step stopped counts as every other. Heun, n = 5: 1, 3, 5, 7 and 8.

    Source: StableDiffusionPipeline.__call__, its callback_on_step_end and progress_bar.

    >>> from types import SimpleNamespace as Box
    >>> scheduler = Box(timesteps=[3, 2, 1], init_noise_sigma=1.0, set_timesteps=lambda n: None)
    >>> scheduler.scale_model_input, scheduler.order = lambda x, t: x, 2
    >>> scheduler.step = lambda output, t, x: Box(prev_sample=x - output)
    >>> ones = lambda x, t, condition: condition
    >>> x, seen = torch.tensor([[10.0]]), []
    >>> watch = lambda i, t, latents: seen.append((i, t, latents.item()))
    >>> denoise_watched(ones, scheduler, x, 2, x / 10, watch)
    (tensor([[7.]]), [1, 2])
    >>> seen
    [(0, 3, 9.0), (1, 2, 8.0), (2, 1, 7.0)]
    """
    ### BEGIN SOLUTION
    scheduler.set_timesteps(steps)
    current = latents * scheduler.init_noise_sigma
    moments, order = scheduler.timesteps, scheduler.order
    warmup = len(moments) - steps * order
    progress = []
    for i, t in enumerate(moments):
        prediction = denoiser(scheduler.scale_model_input(current, t), t, condition)
        current = scheduler.step(prediction, t, current).prev_sample
        stop = on_step(i, t, current)
        whole_step = i + 1 > warmup and (i + 1) % order == 0
        if whole_step or i == len(moments) - 1:
            progress.append(i)
        if stop is True:
            break
    return current, progress
    ### END SOLUTION


def guided_window(
    denoiser: Denoiser,
    scheduler: Any,
    latents: Tensor,
    steps: int,
    negative: Tensor,
    positive: Tensor,
    scale: float,
    start: float,
    end: float,
) -> Tensor:
    """4.4 · The loop of 4.1, guided in a part of its iterations only.

    scheduler: DDIM, Euler or FlowMatchEuler, one timestep a step. latents: as in 4.1. negative,
    positive: (B, L, D), the conditions of the two branches. scale: w above 1. start, end: fractions
    of the run, 0 to 1. Returns (B, C, H, W).

    Guidance is on in iteration i when int(start·n) ≤ i < int(end·n). On: one call of the denoiser
    with a batch of 2B, the negative half first, and step gets u + w·(c − u). Off: one call of batch
    B with `positive`, and step gets its answer.

    Source: Kynkäänniemi et al. 2024 (arXiv 2404.07724); ClassifierFreeGuidance(start, stop) in
    diffusers.guiders, its _is_cfg_enabled.

    >>> from types import SimpleNamespace as Box
    >>> scheduler = Box(timesteps=[4, 3, 2, 1], set_timesteps=lambda n: None)
    >>> scheduler.step = lambda output, t, x: Box(prev_sample=x - output)
    >>> said = lambda x, t, condition: condition
    >>> x, negative, positive = torch.tensor([[10.0]]), torch.tensor([[0.0]]), torch.tensor([[1.0]])
    >>> guided_window(said, scheduler, x, 4, negative, positive, 3.0, 0.25, 0.75).tolist()
    [[2.0]]
    """
    ### BEGIN SOLUTION
    scheduler.set_timesteps(steps)
    x = latents * getattr(scheduler, "init_noise_sigma", 1.0)
    first, stop = int(start * steps), int(end * steps)
    for i, t in enumerate(scheduler.timesteps):
        rescaling = hasattr(scheduler, "scale_model_input")
        inputs = scheduler.scale_model_input(x, t) if rescaling else x
        if first <= i < stop:
            both = denoiser(torch.cat([inputs, inputs]), t, torch.cat([negative, positive]))
            uncond, cond = both.chunk(2)
            guided = uncond + scale * (cond - uncond)
        else:
            guided = denoiser(inputs, t, positive)
        x = scheduler.step(guided, t, x).prev_sample
    return x
    ### END SOLUTION


def batch_noise(seeds: Sequence[int], shape: Sequence[int]) -> Tensor:
    """4.5 · Noise for a batch in which every image has a seed of its own.

    seeds: B whole numbers. shape: (B, …) of the whole batch, of any rank. Returns float32 of that
    shape, standard normal, on the CPU: row k is what a new torch.Generator with seeds[k] draws for
    a batch of one, whatever the other seeds are. So image k of a batch can be made again alone.

    Source: randn_tensor with a list of generators in diffusers.utils.torch_utils.

    >>> noise = batch_noise([7, 8, 7], (3, 4, 2, 5))
    >>> noise.shape, torch.equal(noise[0], noise[2]), torch.equal(noise[0], noise[1])
    (torch.Size([3, 4, 2, 5]), True, False)
    >>> torch.equal(noise[1:2], torch.randn(1, 4, 2, 5, generator=torch.Generator().manual_seed(8)))
    True
    """
    ### BEGIN SOLUTION
    generators = [torch.Generator().manual_seed(seed) for seed in seeds]
    rows = [torch.randn((1, *shape[1:]), generator=generator) for generator in generators]
    return torch.cat(rows)
    ### END SOLUTION
