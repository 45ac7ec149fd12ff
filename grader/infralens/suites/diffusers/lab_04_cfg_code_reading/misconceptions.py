"""Lab 04: wrong answers that people really give, each the shortest code beside its sentence."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from infralens.examiner import misconception

PAGE = "handbook/guidance.md"


def guide(u: Tensor, c: Tensor, w: float) -> Tensor:
    return u + w * (c - u)


def predict(denoiser: Any, x: Tensor, t: Any, negative: Tensor, prompt: Tensor, w: float) -> Tensor:
    if w <= 1:
        alone: Tensor = denoiser(x, t, prompt)
        return alone
    u, c = denoiser(torch.cat([x, x]), t, torch.cat([negative, prompt])).chunk(2)
    return guide(u, c, w)


def spread(x: Tensor) -> Tensor:
    return x.std(dim=tuple(range(1, x.dim())), keepdim=True)


def mix(resized: Tensor, guided: Tensor, rescale: float) -> Tensor:
    return rescale * resized + (1 - rescale) * guided


def factor(cond: Tensor, guided: Tensor) -> Tensor:
    now = spread(guided)
    return torch.where(now == 0, torch.ones_like(now), spread(cond) / now.clamp(min=1e-30))


@misconception(
    "4.1", "off-at-one-and-below", replaces="combine", reads=f"{PAGE}#scale-one-and-zero"
)
def off_below_one(uncond: Tensor, cond: Tensor, scale: float) -> Tensor:
    """At scales of 1 and below the conditional prediction came back. A pipeline switches guidance
    off there; the formula itself goes on, and at 0 it is the unconditional prediction."""
    return cond if scale <= 1 else guide(uncond, cond, scale)


@misconception(
    "4.1", "one-taken-off-the-scale", replaces="combine", reads=f"{PAGE}#two-ways-to-count"
)
def one_taken_off(uncond: Tensor, cond: Tensor, scale: float) -> Tensor:
    """One was taken off the scale. That turns diffusers' scale into the paper's, which is counted
    from the conditional prediction; from the unconditional one, use the scale as it is."""
    return guide(uncond, cond, scale - 1)


@misconception("4.1", "branches-swapped", replaces="combine", reads=f"{PAGE}#the-formula")
def swapped(uncond: Tensor, cond: Tensor, scale: float) -> Tensor:
    """The branches changed places: this walks away from the prompt. Start at the unconditional
    prediction and go towards the conditional one."""
    return cond + scale * (uncond - cond)


@misconception("4.1", "difference-turned-round", replaces="combine", reads=f"{PAGE}#the-formula")
def turned_round(uncond: Tensor, cond: Tensor, scale: float) -> Tensor:
    """The difference is the wrong way round: unconditional minus conditional points away from the
    prompt."""
    return uncond + scale * (uncond - cond)


@misconception(
    "4.1", "counted-from-the-conditional", replaces="combine", reads=f"{PAGE}#two-ways-to-count"
)
def original(uncond: Tensor, cond: Tensor, scale: float) -> Tensor:
    """The walk began at the conditional prediction. That is the paper's way of counting, one step
    further along: its w is this scale minus 1."""
    return cond + scale * (cond - uncond)


@misconception("4.1", "difference-forgotten", replaces="combine", reads=f"{PAGE}#the-formula")
def no_difference(uncond: Tensor, cond: Tensor, scale: float) -> Tensor:
    """The conditional prediction was added whole. What is scaled is the difference of the two, so
    that the weights add to 1."""
    return uncond + scale * cond


@misconception("4.1", "combined-in-float32", replaces="combine", reads=f"{PAGE}#the-formula")
def in_float32(uncond: Tensor, cond: Tensor, scale: float) -> Tensor:
    """The result came back in float32. Return the dtype of the predictions, which the rest of the
    run expects."""
    return guide(uncond.float(), cond.float(), scale)


@misconception(
    "4.2",
    "conditional-half-first",
    replaces="guidance_batch",
    reads=f"{PAGE}#one-batch-two-halves",
)
def conditional_first(latents: Tensor, negative: Tensor, prompt: Tensor) -> tuple[Tensor, Tensor]:
    """The prompts came first, as in DiTPipeline. Stable Diffusion puts the negative prompts first,
    and whoever splits the answer counts on it."""
    return torch.cat([latents, latents]), torch.cat([prompt, negative])


@misconception(
    "4.2", "latents-interleaved", replaces="guidance_batch", reads=f"{PAGE}#one-batch-two-halves"
)
def latents_interleaved(latents: Tensor, negative: Tensor, prompt: Tensor) -> tuple[Tensor, Tensor]:
    """The latents were repeated image by image, so images meet the prompts of others. Repeat the
    whole batch: a, b, a, b."""
    return latents.repeat_interleave(2, dim=0), torch.cat([negative, prompt])


@misconception(
    "4.2", "branches-interleaved", replaces="guidance_batch", reads=f"{PAGE}#one-batch-two-halves"
)
def interleaved(latents: Tensor, negative: Tensor, prompt: Tensor) -> tuple[Tensor, Tensor]:
    """The two rows of each image stand side by side. All unconditional rows come first, then all
    conditional ones, so that chunk(2) separates them."""
    pairs = torch.stack([negative, prompt], dim=1)
    return latents.repeat_interleave(2, dim=0), pairs.flatten(0, 1)


@misconception(
    "4.2", "prompt-in-both-halves", replaces="guidance_batch", reads=f"{PAGE}#negative-prompts"
)
def prompt_twice(latents: Tensor, negative: Tensor, prompt: Tensor) -> tuple[Tensor, Tensor]:
    """Both halves hold the prompt, so their difference is 0 and guidance does nothing. The first
    half belongs to the negative prompt."""
    return torch.cat([latents, latents]), torch.cat([prompt, prompt])


@misconception(
    "4.2",
    "joined-along-the-tokens",
    replaces="guidance_batch",
    reads=f"{PAGE}#one-batch-two-halves",
)
def along_tokens(latents: Tensor, negative: Tensor, prompt: Tensor) -> tuple[Tensor, Tensor]:
    """The embeddings were joined along the token axis: one long prompt for each image. The branches
    are rows of the batch."""
    return torch.cat([latents, latents]), torch.cat([negative, prompt], dim=1)


@misconception(
    "4.2", "latents-not-doubled", replaces="guidance_batch", reads=f"{PAGE}#one-batch-two-halves"
)
def not_doubled(latents: Tensor, negative: Tensor, prompt: Tensor) -> tuple[Tensor, Tensor]:
    """The latents are there once, the embeddings for both branches. Every row of the embeddings
    needs its latents."""
    return latents, torch.cat([negative, prompt])


@misconception(
    "4.3", "never-guided", replaces="guided_prediction", reads=f"{PAGE}#one-batch-two-halves"
)
def never_guided(
    denoiser: Any, x: Tensor, t: Any, negative: Tensor, prompt: Tensor, w: float
) -> Tensor:
    """Only the prompt was asked about although the scale is above 1. Guidance needs both branches:
    a batch of 2B."""
    return predict(denoiser, x, t, negative, prompt, 1.0)


@misconception(
    "4.3", "two-calls", replaces="guided_prediction", reads=f"{PAGE}#one-batch-two-halves"
)
def two_calls(
    denoiser: Any, x: Tensor, t: Any, negative: Tensor, prompt: Tensor, w: float
) -> Tensor:
    """The network was called once for each branch. The numbers are the same; one call with both
    branches in a batch of 2B keeps the device busier."""
    if w <= 1:
        return predict(denoiser, x, t, negative, prompt, w)
    return guide(denoiser(x, t, negative), denoiser(x, t, prompt), w)


@misconception(
    "4.3",
    "asked-conditional-half-first",
    replaces="guided_prediction",
    reads=f"{PAGE}#one-batch-two-halves",
)
def asked_conditional_first(
    denoiser: Any, x: Tensor, t: Any, negative: Tensor, prompt: Tensor, w: float
) -> Tensor:
    """The batch has the conditional half first. Split the same way it gives the same numbers, but
    this lab, like Stable Diffusion, puts the unconditional half first."""
    if w <= 1:
        return predict(denoiser, x, t, negative, prompt, w)
    c, u = denoiser(torch.cat([x, x]), t, torch.cat([prompt, negative])).chunk(2)
    return guide(u, c, w)


@misconception(
    "4.3",
    "answer-split-swapped",
    replaces="guided_prediction",
    reads=f"{PAGE}#one-batch-two-halves",
)
def split_swapped(
    denoiser: Any, x: Tensor, t: Any, negative: Tensor, prompt: Tensor, w: float
) -> Tensor:
    """The halves of the answer were taken for each other. The batch went in unconditional half
    first, so the answer comes back that way."""
    if w <= 1:
        return predict(denoiser, x, t, negative, prompt, w)
    c, u = denoiser(torch.cat([x, x]), t, torch.cat([negative, prompt])).chunk(2)
    return guide(u, c, w)


@misconception(
    "4.3",
    "asked-with-the-prompt-twice",
    replaces="guided_prediction",
    reads=f"{PAGE}#negative-prompts",
)
def asked_twice(
    denoiser: Any, x: Tensor, t: Any, negative: Tensor, prompt: Tensor, w: float
) -> Tensor:
    """Both halves were asked about the prompt: the difference is 0 and the scale has no effect. The
    unconditional half takes the negative embeddings."""
    return predict(denoiser, x, t, prompt, prompt, w)


@misconception(
    "4.3",
    "scale-counted-from-the-conditional",
    replaces="guided_prediction",
    reads=f"{PAGE}#two-ways-to-count",
)
def asked_original(
    denoiser: Any, x: Tensor, t: Any, negative: Tensor, prompt: Tensor, w: float
) -> Tensor:
    """The combination began at the conditional prediction, as the paper counts. In a pipeline that
    is guidance at scale + 1."""
    return predict(denoiser, x, t, negative, prompt, w + 1 if w > 1 else w)


@misconception(
    "4.3", "timestep-repeated", replaces="guided_prediction", reads=f"{PAGE}#one-batch-two-halves"
)
def timestep_repeated(
    denoiser: Any, x: Tensor, t: Any, negative: Tensor, prompt: Tensor, w: float
) -> Tensor:
    """The timestep was repeated for every row. Both branches are at one timestep: hand t on as it
    came."""
    rows = torch.as_tensor(t).expand(len(x) if w <= 1 else 2 * len(x))
    return predict(denoiser, x, rows, negative, prompt, w)


@misconception(
    "4.3", "guided-at-one", replaces="guided_prediction", reads=f"{PAGE}#scale-one-and-zero"
)
def guided_at_one(
    denoiser: Any, x: Tensor, t: Any, negative: Tensor, prompt: Tensor, w: float
) -> Tensor:
    """At scale 1 both branches were computed, and one of them for nothing. Guidance begins above
    1."""
    if w == 1:
        return always_guided(denoiser, x, t, negative, prompt, w)
    return predict(denoiser, x, t, negative, prompt, w)


@misconception(
    "4.3",
    "guided-at-every-scale",
    replaces="guided_prediction",
    reads=f"{PAGE}#scale-one-and-zero",
)
def always_guided(
    denoiser: Any, x: Tensor, t: Any, negative: Tensor, prompt: Tensor, w: float
) -> Tensor:
    """Both branches were computed although the scale is 1 or less. The pipeline switches guidance
    off there: one call of batch B with the prompt's embeddings."""
    u, c = denoiser(torch.cat([x, x]), t, torch.cat([negative, prompt])).chunk(2)
    return guide(u, c, w)


@misconception(
    "4.3", "negative-below-one", replaces="guided_prediction", reads=f"{PAGE}#scale-one-and-zero"
)
def negative_below_one(
    denoiser: Any, x: Tensor, t: Any, negative: Tensor, prompt: Tensor, w: float
) -> Tensor:
    """Without guidance the negative prompt was asked about. What remains when guidance is off is
    the prompt."""
    return predict(denoiser, x, t, negative, negative if w <= 1 else prompt, w)


@misconception(
    "4.3", "timestep-made-whole", replaces="guided_prediction", reads=f"{PAGE}#in-the-loop"
)
def made_whole(
    denoiser: Any, x: Tensor, t: Any, negative: Tensor, prompt: Tensor, w: float
) -> Tensor:
    """t lost its fraction. Schedulers ask between two training steps as well: hand t on as it
    is."""
    return predict(denoiser, x, int(t), negative, prompt, w)


@misconception(
    "4.4", "one-deviation-for-the-batch", replaces="rescale_guidance", reads=f"{PAGE}#rescaling"
)
def whole_batch(guided: Tensor, cond: Tensor, rescale: float) -> Tensor:
    """One standard deviation was taken over the whole batch, so images change each other. Each
    sample has its own."""
    return mix(guided * (cond.std() / guided.std()), guided, rescale)


@misconception(
    "4.4", "deviation-of-each-channel", replaces="rescale_guidance", reads=f"{PAGE}#rescaling"
)
def each_channel(guided: Tensor, cond: Tensor, rescale: float) -> Tensor:
    """The standard deviation was taken for each channel. It is one number for a sample, over all
    axes but the first."""
    axes = tuple(range(2, guided.dim()))
    now, wanted = guided.std(axes, keepdim=True), cond.std(axes, keepdim=True)
    return mix(guided * torch.where(now == 0, torch.ones_like(now), wanted / now), guided, rescale)


@misconception(
    "4.4", "axes-of-an-image-only", replaces="rescale_guidance", reads=f"{PAGE}#rescaling"
)
def image_axes(guided: Tensor, cond: Tensor, rescale: float) -> Tensor:
    """The axes 1, 2 and 3 are written into the code. Tokens have fewer axes and video has more:
    take all but the first, however many there are."""
    now, wanted = guided.std((1, 2, 3), keepdim=True), cond.std((1, 2, 3), keepdim=True)
    return mix(guided * torch.where(now == 0, torch.ones_like(now), wanted / now), guided, rescale)


@misconception(
    "4.4", "one-constant-stops-all", replaces="rescale_guidance", reads=f"{PAGE}#rescaling"
)
def stops_all(guided: Tensor, cond: Tensor, rescale: float) -> Tensor:
    """One constant sample left the whole batch without rescaling. Decide for each sample on its
    own."""
    if bool((spread(guided) == 0).any()):
        return guided
    return mix(guided * factor(cond, guided), guided, rescale)


@misconception("4.4", "one-deviation-twice", replaces="rescale_guidance", reads=f"{PAGE}#rescaling")
def same_twice(guided: Tensor, cond: Tensor, rescale: float) -> Tensor:
    """Nothing changed: a deviation was divided by itself, or the rescaled prediction was not used.
    The deviation aimed at is that of cond."""
    return mix(guided * factor(guided, guided), guided, rescale)


@misconception("4.4", "mix-swapped", replaces="rescale_guidance", reads=f"{PAGE}#rescaling")
def mix_swapped(guided: Tensor, cond: Tensor, rescale: float) -> Tensor:
    """The shares of the mix changed places. φ is the share of the rescaled prediction: at 0 nothing
    is rescaled."""
    return mix(guided * factor(cond, guided), guided, 1 - rescale)


@misconception("4.4", "ratio-upside-down", replaces="rescale_guidance", reads=f"{PAGE}#rescaling")
def upside_down(guided: Tensor, cond: Tensor, rescale: float) -> Tensor:
    """The ratio is upside down, so the prediction grows where it should shrink. Multiply by cond's
    deviation, divide by guided's."""
    return mix(guided / factor(cond, guided), guided, rescale)


@misconception(
    "4.4", "variance-for-deviation", replaces="rescale_guidance", reads=f"{PAGE}#rescaling"
)
def variances(guided: Tensor, cond: Tensor, rescale: float) -> Tensor:
    """Variances were divided. A factor on the prediction changes its variance by its square: take
    the ratio of standard deviations."""
    return mix(guided * factor(cond, guided) ** 2, guided, rescale)


@misconception("4.4", "mean-not-removed", replaces="rescale_guidance", reads=f"{PAGE}#rescaling")
def root_mean_square(guided: Tensor, cond: Tensor, rescale: float) -> Tensor:
    """The root of the mean square was taken. A standard deviation is measured from the mean."""
    axes = tuple(range(1, guided.ndim))
    now, wanted = (x.square().mean(axes, keepdim=True).sqrt() for x in (guided, cond))
    return mix(guided * torch.where(now == 0, torch.ones_like(now), wanted / now), guided, rescale)


@misconception(
    "4.4", "whole-prediction-from-cond", replaces="rescale_guidance", reads=f"{PAGE}#rescaling"
)
def towards_cond(guided: Tensor, cond: Tensor, rescale: float) -> Tensor:
    """The conditional prediction itself was mixed in, which undoes guidance. Only its size is
    wanted: guided, times a ratio of deviations."""
    return mix(cond, guided, rescale)


@misconception(
    "4.4", "divided-by-no-spread", replaces="rescale_guidance", reads=f"{PAGE}#rescaling"
)
def unguarded(guided: Tensor, cond: Tensor, rescale: float) -> Tensor:
    """A constant prediction has deviation 0, and dividing by it gives NaN or infinity (the library
    does so too). Leave such a sample as it is."""
    return mix(guided * (spread(cond) / spread(guided)), guided, rescale)


@misconception(
    "4.4", "small-number-in-the-divisor", replaces="rescale_guidance", reads=f"{PAGE}#rescaling"
)
def epsilon_added(guided: Tensor, cond: Tensor, rescale: float) -> Tensor:
    """A small number was added to a deviation of 0, which makes the ratio huge instead of infinite.
    A sample without spread keeps the factor 1."""
    return mix(guided * (spread(cond) / (spread(guided) + 1e-8)), guided, rescale)


@misconception("4.4", "nan-made-zero", replaces="rescale_guidance", reads=f"{PAGE}#rescaling")
def nan_to_zero(guided: Tensor, cond: Tensor, rescale: float) -> Tensor:
    """What could not be divided became 0. A sample without spread comes back as it was."""
    ratio = (spread(cond) / spread(guided)).nan_to_num(0.0, 0.0, 0.0)
    return mix(guided * ratio, guided, rescale)


@misconception(
    "4.4", "guards-the-wrong-deviation", replaces="rescale_guidance", reads=f"{PAGE}#rescaling"
)
def guards_cond(guided: Tensor, cond: Tensor, rescale: float) -> Tensor:
    """A sample was left alone because cond has no spread there. That is no trouble, the factor is
    0; only guided's deviation stands in the divisor."""
    ratio = factor(cond, guided)
    return mix(
        guided * torch.where(spread(cond) == 0, torch.ones_like(ratio), ratio), guided, rescale
    )


def loop(scheduler: Any, x: Tensor, n: int, turn: Any) -> Tensor:
    """The compact twin: `turn` gives the next latents from these and t."""
    scheduler.set_timesteps(n)
    x = x * scheduler.init_noise_sigma
    for t in scheduler.timesteps:
        x = turn(x, t)
    return x


@misconception(
    "4.5", "step-from-scaled-latents", replaces="guided_sample", reads=f"{PAGE}#in-the-loop"
)
def step_from_scaled(
    denoiser: Any, scheduler: Any, x: Tensor, negative: Tensor, prompt: Tensor, w: float, n: int
) -> Tensor:
    """step was given the scaled latents. Only the network sees those; keep them in a variable of
    their own and step from the latents as they were."""

    def turn(x: Tensor, t: Any) -> Any:
        x = scheduler.scale_model_input(x, t)
        return scheduler.step(predict(denoiser, x, t, negative, prompt, w), t, x).prev_sample

    return loop(scheduler, x, n, turn)


@misconception("4.5", "noise-not-scaled", replaces="guided_sample", reads=f"{PAGE}#in-the-loop")
def noise_not_scaled(
    denoiser: Any, scheduler: Any, x: Tensor, negative: Tensor, prompt: Tensor, w: float, n: int
) -> Tensor:
    """The run began with noise of size 1. Multiply it by init_noise_sigma, which is 1 for DDIM and
    PNDM and far larger for Euler and Heun."""
    scheduler.set_timesteps(n)
    for t in scheduler.timesteps:
        seen = scheduler.scale_model_input(x, t)
        x = scheduler.step(predict(denoiser, seen, t, negative, prompt, w), t, x).prev_sample
    return x


@misconception(
    "4.5", "initial-noise-read-too-early", replaces="guided_sample", reads=f"{PAGE}#in-the-loop"
)
def read_too_early(
    denoiser: Any, scheduler: Any, x: Tensor, negative: Tensor, prompt: Tensor, w: float, n: int
) -> Tensor:
    """init_noise_sigma was read before set_timesteps. The run decides where it begins: read it
    afterwards."""
    x = x * scheduler.init_noise_sigma
    scheduler.set_timesteps(n)
    for t in scheduler.timesteps:
        seen = scheduler.scale_model_input(x, t)
        x = scheduler.step(predict(denoiser, seen, t, negative, prompt, w), t, x).prev_sample
    return x


@misconception("4.5", "loop-index-for-t", replaces="guided_sample", reads=f"{PAGE}#in-the-loop")
def index_for_t(
    denoiser: Any, scheduler: Any, x: Tensor, negative: Tensor, prompt: Tensor, w: float, n: int
) -> Tensor:
    """The denoiser was told the number of the turn. What it knows from training is the timestep:
    the entry of scheduler.timesteps."""
    scheduler.set_timesteps(n)
    x = x * scheduler.init_noise_sigma
    for i, t in enumerate(scheduler.timesteps):
        seen = scheduler.scale_model_input(x, t)
        x = scheduler.step(predict(denoiser, seen, i, negative, prompt, w), t, x).prev_sample
    return x


@misconception("4.5", "whole-step-result", replaces="guided_sample", reads=f"{PAGE}#in-the-loop")
def whole_step_result(
    denoiser: Any, scheduler: Any, x: Tensor, negative: Tensor, prompt: Tensor, w: float, n: int
) -> Tensor:
    """What step returned was carried on whole. It is an object with the latents in it: take its
    .prev_sample."""

    def turn(x: Tensor, t: Any) -> Any:
        seen = scheduler.scale_model_input(x, t)
        return scheduler.step(predict(denoiser, seen, t, negative, prompt, w), t, x)

    return loop(scheduler, x, n, turn)


@misconception("4.5", "steps-for-timesteps", replaces="guided_sample", reads=f"{PAGE}#in-the-loop")
def steps_for_timesteps(
    denoiser: Any, scheduler: Any, x: Tensor, negative: Tensor, prompt: Tensor, w: float, n: int
) -> Tensor:
    """The loop counted the steps down, n − 1 to 0, and took them for timesteps. Those that the
    network knows are in scheduler.timesteps, once set_timesteps was called."""
    scheduler.set_timesteps(n)
    x = x * scheduler.init_noise_sigma
    for t in reversed(range(n)):
        seen = scheduler.scale_model_input(x, t)
        x = scheduler.step(predict(denoiser, seen, t, negative, prompt, w), t, x).prev_sample
    return x


@misconception("4.5", "input-not-scaled", replaces="guided_sample", reads=f"{PAGE}#in-the-loop")
def input_not_scaled(
    denoiser: Any, scheduler: Any, x: Tensor, negative: Tensor, prompt: Tensor, w: float, n: int
) -> Tensor:
    """The network was shown the latents without scale_model_input. DDIM does not mind; Euler's
    latents carry noise of size σ, which the network never saw in training."""

    def turn(x: Tensor, t: Any) -> Any:
        return scheduler.step(predict(denoiser, x, t, negative, prompt, w), t, x).prev_sample

    return loop(scheduler, x, n, turn)


@misconception(
    "4.5", "loop-without-guidance", replaces="guided_sample", reads=f"{PAGE}#in-the-loop"
)
def loop_without_guidance(
    denoiser: Any, scheduler: Any, x: Tensor, negative: Tensor, prompt: Tensor, w: float, n: int
) -> Tensor:
    """The loop runs without guidance although the scale is above 1: the denoiser was given B rows,
    not 2B."""

    def turn(x: Tensor, t: Any) -> Any:
        seen = scheduler.scale_model_input(x, t)
        return scheduler.step(
            never_guided(denoiser, seen, t, negative, prompt, w), t, x
        ).prev_sample

    return loop(scheduler, x, n, turn)


@misconception(
    "4.5", "two-calls-a-turn", replaces="guided_sample", reads=f"{PAGE}#one-batch-two-halves"
)
def two_calls_a_turn(
    denoiser: Any, scheduler: Any, x: Tensor, negative: Tensor, prompt: Tensor, w: float, n: int
) -> Tensor:
    """The denoiser was called once for each branch, twice a turn. Both branches fit in one call of
    batch 2B."""

    def turn(x: Tensor, t: Any) -> Any:
        seen = scheduler.scale_model_input(x, t)
        return scheduler.step(two_calls(denoiser, seen, t, negative, prompt, w), t, x).prev_sample

    return loop(scheduler, x, n, turn)


@misconception(
    "4.5", "loop-with-the-prompt-twice", replaces="guided_sample", reads=f"{PAGE}#negative-prompts"
)
def loop_prompt_twice(
    denoiser: Any, scheduler: Any, x: Tensor, negative: Tensor, prompt: Tensor, w: float, n: int
) -> Tensor:
    """The unconditional half was given the prompt's embeddings. It belongs to the negative prompt;
    with the same text on both sides guidance has nothing to go by."""

    def turn(x: Tensor, t: Any) -> Any:
        seen = scheduler.scale_model_input(x, t)
        return scheduler.step(predict(denoiser, seen, t, prompt, prompt, w), t, x).prev_sample

    return loop(scheduler, x, n, turn)


@misconception(
    "4.5", "loop-away-from-the-prompt", replaces="guided_sample", reads=f"{PAGE}#the-formula"
)
def loop_away(
    denoiser: Any, scheduler: Any, x: Tensor, negative: Tensor, prompt: Tensor, w: float, n: int
) -> Tensor:
    """The halves of the answer were combined the wrong way round: step was led away from the
    prompt."""

    def turn(x: Tensor, t: Any) -> Any:
        seen = scheduler.scale_model_input(x, t)
        return scheduler.step(
            split_swapped(denoiser, seen, t, negative, prompt, w), t, x
        ).prev_sample

    return loop(scheduler, x, n, turn)


@misconception(
    "4.5",
    "loop-with-halves-swapped",
    replaces="guided_sample",
    reads=f"{PAGE}#one-batch-two-halves",
)
def loop_halves_swapped(
    denoiser: Any, scheduler: Any, x: Tensor, negative: Tensor, prompt: Tensor, w: float, n: int
) -> Tensor:
    """The embeddings went in with the conditional half first. The negative prompts take the first
    half of the batch."""

    def turn(x: Tensor, t: Any) -> Any:
        seen = scheduler.scale_model_input(x, t)
        output = predict(
            denoiser, seen, t, *((prompt, negative) if w > 1 else (negative, prompt)), w
        )
        return scheduler.step(output, t, x).prev_sample

    return loop(scheduler, x, n, turn)


@misconception(
    "4.5", "loop-at-scale-plus-one", replaces="guided_sample", reads=f"{PAGE}#two-ways-to-count"
)
def loop_plus_one(
    denoiser: Any, scheduler: Any, x: Tensor, negative: Tensor, prompt: Tensor, w: float, n: int
) -> Tensor:
    """The combination was counted from the conditional prediction, which is guidance at scale + 1.
    Count from the unconditional one."""

    def turn(x: Tensor, t: Any) -> Any:
        seen = scheduler.scale_model_input(x, t)
        output = asked_original(denoiser, seen, t, negative, prompt, w)
        return scheduler.step(output, t, x).prev_sample

    return loop(scheduler, x, n, turn)


@misconception("4.5", "step-for-each-branch", replaces="guided_sample", reads=f"{PAGE}#in-the-loop")
def step_for_each(
    denoiser: Any, scheduler: Any, x: Tensor, negative: Tensor, prompt: Tensor, w: float, n: int
) -> Tensor:
    """Each branch had a step of its own and the results were combined. Guidance comes before step:
    the scheduler is given one prediction and counts one step."""

    def turn(x: Tensor, t: Any) -> Any:
        seen = scheduler.scale_model_input(x, t)
        if w <= 1:
            return scheduler.step(denoiser(seen, t, prompt), t, x).prev_sample
        both = denoiser(torch.cat([seen, seen]), t, torch.cat([negative, prompt])).chunk(2)
        u, c = (scheduler.step(half, t, x).prev_sample for half in both)
        return guide(u, c, w)

    return loop(scheduler, x, n, turn)


@misconception(
    "4.5", "steps-counted-not-timesteps", replaces="guided_sample", reads=f"{PAGE}#in-the-loop"
)
def counted(
    denoiser: Any, scheduler: Any, x: Tensor, negative: Tensor, prompt: Tensor, w: float, n: int
) -> Tensor:
    """The loop made num_inference_steps turns. Heun and PNDM have more timesteps than that: go
    through scheduler.timesteps to its end."""
    scheduler.set_timesteps(n)
    x = x * scheduler.init_noise_sigma
    for i in range(n):
        t = scheduler.timesteps[i]
        seen = scheduler.scale_model_input(x, t)
        x = scheduler.step(predict(denoiser, seen, t, negative, prompt, w), t, x).prev_sample
    return x


@misconception(
    "4.5",
    "loop-guided-at-every-scale",
    replaces="guided_sample",
    reads=f"{PAGE}#scale-one-and-zero",
)
def loop_always_guided(
    denoiser: Any, scheduler: Any, x: Tensor, negative: Tensor, prompt: Tensor, w: float, n: int
) -> Tensor:
    """Both branches were computed although the scale is 1 or less. There guidance is off: batches
    of B, with the prompts' embeddings."""

    def turn(x: Tensor, t: Any) -> Any:
        seen = scheduler.scale_model_input(x, t)
        return scheduler.step(
            always_guided(denoiser, seen, t, negative, prompt, w), t, x
        ).prev_sample

    return loop(scheduler, x, n, turn)


@misconception("4.5", "both-branches-kept", replaces="guided_sample", reads=f"{PAGE}#in-the-loop")
def both_kept(
    denoiser: Any, scheduler: Any, x: Tensor, negative: Tensor, prompt: Tensor, w: float, n: int
) -> Tensor:
    """The latents were carried along twice, and step was given 2B rows. After guidance the branches
    are one: B predictions for B latents."""

    def turn(x: Tensor, t: Any) -> Any:
        seen = scheduler.scale_model_input(x, t)[: len(prompt)]
        output = predict(denoiser, seen, t, negative, prompt, w)
        return scheduler.step(torch.cat([output, output]), t, x).prev_sample

    return loop(scheduler, torch.cat([x, x]), n, turn)[: len(prompt)]


@misconception(
    "4.6",
    "variance-not-dropped",
    replaces="guide_learned_sigma",
    reads=f"{PAGE}#beside-a-learned-variance",
)
def variance_kept(output: Tensor, scale: float) -> Tensor:
    """All 2C channels came back. A scheduler without learned variance is given ε alone, the first
    half of the channels."""
    u, c = output.chunk(2)
    return guide(u, c, scale)


@misconception(
    "4.6",
    "variance-guided",
    replaces="guide_learned_sigma",
    reads=f"{PAGE}#beside-a-learned-variance",
)
def variance_guided(output: Tensor, scale: float) -> Tensor:
    """The variance half of the channels was guided and ε dropped. ε comes first."""
    u, c = output.chunk(2, dim=1)[1].chunk(2)
    return guide(u, c, scale)


@misconception(
    "4.6",
    "three-channels-guided",
    replaces="guide_learned_sigma",
    reads=f"{PAGE}#beside-a-learned-variance",
)
def three_channels(output: Tensor, scale: float) -> Tensor:
    """Only three channels were guided, the others kept the conditional prediction. DiT's first code
    did that; a latent has as many channels as half the output, and all are guided."""
    u, c = output.chunk(2, dim=1)[0].chunk(2)
    return torch.cat([guide(u[:, :3], c[:, :3], scale), c[:, 3:]], dim=1)


@misconception(
    "4.6", "order-of-dit", replaces="guide_learned_sigma", reads=f"{PAGE}#beside-a-learned-variance"
)
def order_of_dit(output: Tensor, scale: float) -> Tensor:
    """The conditional half was taken to come first, as in DiTPipeline. Here the unconditional half
    is first, as in Stable Diffusion."""
    c, u = output.chunk(2, dim=1)[0].chunk(2)
    return guide(u, c, scale)


@misconception(
    "4.6",
    "channels-taken-for-branches",
    replaces="guide_learned_sigma",
    reads=f"{PAGE}#beside-a-learned-variance",
)
def channels_as_branches(output: Tensor, scale: float) -> Tensor:
    """The channels were split into branches: ε was combined with the variance. Branches are halves
    of the batch."""
    u, c = output.chunk(2, dim=1)
    return guide(u, c, scale)


@misconception(
    "4.6",
    "conditional-epsilon-alone",
    replaces="guide_learned_sigma",
    reads=f"{PAGE}#beside-a-learned-variance",
)
def not_guided(output: Tensor, scale: float) -> Tensor:
    """The conditional ε came back without guidance. Both halves take part."""
    return output.chunk(2, dim=1)[0].chunk(2)[1]
