"""Lab 04: the learner's guidance against a guider, two pipelines and four schedulers."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from diffusers.guiders import ClassifierFreeGuidance
from torch import Tensor

from infralens.examiner import (
    Draw,
    Recorded,
    assert_agrees,
    assert_calls,
    assert_equals,
    assert_matches,
    assert_matches_formula,
    assert_property,
    comparable,
    library_function,
    recorded,
    todo,
    told,
    unpack,
)
from infralens.suites import schedulers
from infralens.suites.diffusers.lab_04_cfg_code_reading import dit, tiny

SCHEDULERS = ("DDIMScheduler", "EulerDiscreteScheduler", "HeunDiscreteScheduler", "PNDMScheduler")
CALL = ("latents", "t", "embeds")
# Of the largest value. Guidance multiplies the rounding of a call by twice its scale, turn after
# turn: right loops written in other ways stay under 1e-5, the nearest mistake is at 1e-1.
RUN_SHARE = 1e-4


def draw_share(draw: Draw) -> float:
    """A number between 0 and 1 at which the two ends do not weigh alike."""
    return draw.choice([draw.uniform(0.15, 0.38), draw.uniform(0.62, 0.85)])


def draw_scale(draw: Draw, kind: str) -> float:
    """A guidance scale of this kind."""
    fixed = {"zero": 0.0, "one": 1.0}
    if kind in fixed:
        return fixed[kind]
    return draw_share(draw) if kind == "below one" else draw.uniform(2.5, 9)


def guided(both: Tensor, scale: float) -> Tensor:
    """The guided prediction in float64, out of both halves, unconditional first."""
    uncond, cond = both.double().chunk(2)
    return uncond + scale * (cond - uncond)


@todo("4.1")
@pytest.mark.parametrize("kind", ["usual", "below one", "one", "zero"])
def test_the_guided_prediction_lies_on_the_line(candidate: Any, draw: Draw, kind: str) -> None:
    """combine is ClassifierFreeGuidance's formula, at every scale."""
    shape = draw.choice([(3, 4, 6, 10), (2, 15, 8), (2, 4, 3, 6, 5)])
    uncond, cond, scale = draw.latents(*shape), draw.latents(*shape), draw_scale(draw, kind)
    assert_matches(
        candidate.combine(uncond, cond, scale),
        library=lambda: ClassifierFreeGuidance(guidance_scale=scale).forward(cond, uncond)[0],
        truth=lambda: guided(torch.cat([uncond, cond]), scale),
        what="the guided prediction",
    )


@todo("4.1")
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=["float16", "bfloat16"])
def test_half_precision_predictions_stay_so(candidate: Any, draw: Draw, dtype: torch.dtype) -> None:
    """The result has the dtype of the predictions."""
    uncond, cond = (draw.latents(2, 4, 6, 10, dtype=dtype) for _ in range(2))
    scale = draw_scale(draw, "usual")
    assert_matches(
        candidate.combine(uncond, cond, scale),
        library=lambda: ClassifierFreeGuidance(guidance_scale=scale).forward(cond, uncond)[0],
        truth=lambda: guided(torch.cat([uncond, cond]), scale),
        what="the guided prediction",
    )


def draw_prompts(draw: Draw, batch: int) -> dict[str, Tensor]:
    """Embeddings of prompts and of their negatives, as StableDiffusionPipeline takes them."""
    tokens = draw.choice([5, 7, 11])
    return {
        name: draw.latents(batch, tokens, tiny.EMBED_WIDTH) * 2
        for name in ("negative_prompt_embeds", "prompt_embeds")
    }


def one_step(
    latents: Tensor, t: Tensor, prompts: dict[str, Tensor], scale: float, device: str
) -> tiny.Run:
    """StableDiffusionPipeline's only step, at t, with DDIM, which scales nothing."""
    scheduler = schedulers.scheduler(
        "DDIMScheduler", num_train_timesteps=int(t) + 1, timestep_spacing="trailing"
    )
    pipe = tiny.pipeline(scheduler, device)
    return tiny.run_of(pipe, latents, guidance_scale=scale, num_inference_steps=1, **prompts)


@todo("4.2")
@pytest.mark.parametrize("shape", [(3, 4, 6, 10), (4, 4, 6, 4)], ids=["usual", "batch is width"])
def test_the_batch_is_what_the_unet_of_a_pipeline_sees(
    candidate: Any, draw: Draw, device: str, shape: tuple[int, ...]
) -> None:
    """Latents twice, the negative embeddings before the prompts', along the batch axis."""
    latents, prompts = draw.latents(*shape), draw_prompts(draw, shape[0])
    t = torch.tensor(draw.integer(40, 99))
    answer = candidate.guidance_batch(latents, *prompts.values())
    mine = unpack(answer, "latents", "embeds")

    @functools.cache
    def seen() -> Any:
        return one_step(latents, t, prompts, 7.5, device).calls[0]

    assert_equals(mine[1], library=lambda: seen()[2], what="the embeddings of the batch")
    assert_equals(mine[0], library=lambda: seen()[0], what="the latents of the batch")


@todo("4.3")
def test_the_network_is_asked_once_with_a_double_batch(
    candidate: Any, draw: Draw, device: str
) -> None:
    """The denoiser gets what the UNet of StableDiffusionPipeline gets, in one call."""
    batch, t = draw.integer(2, 3), torch.tensor(draw.integer(40, 99))
    latents, prompts = draw.latents(batch, 4, 6, 10), draw_prompts(draw, batch)
    denoiser, scale = tiny.denoiser(device), draw_scale(draw, "usual")
    candidate.guided_prediction(denoiser, latents, t, *prompts.values(), scale)
    assert_calls(
        denoiser.calls,
        library=lambda: one_step(latents, t, prompts, scale, device).calls,
        names=CALL,
    )


@todo("4.3")
def test_the_scheduler_would_be_given_the_guided_prediction(
    candidate: Any, draw: Draw, device: str
) -> None:
    """The result is what StableDiffusionPipeline hands to its scheduler."""
    batch, t = draw.integer(2, 3), torch.tensor(draw.integer(40, 99))
    latents, prompts = draw.latents(batch, 4, 6, 10), draw_prompts(draw, batch)
    denoiser, scale = tiny.denoiser(device), draw_scale(draw, "usual")
    answer = candidate.guided_prediction(denoiser, latents, t, *prompts.values(), scale)
    run = functools.cache(lambda: one_step(latents, t, prompts, scale, device))
    assert_matches(
        answer,
        library=lambda: run().steps[0][0],
        truth=lambda: guided(denoiser.function(*run().calls[0]), scale),
        what="the guided prediction",
    )


@todo("4.3")
@pytest.mark.parametrize("kind", ["zero", "below one", "one"])
def test_without_guidance_only_the_prompt_is_asked_about(
    candidate: Any, draw: Draw, device: str, kind: str
) -> None:
    """At scale 1 and below there is one call of batch B, and its answer is the result."""
    batch, t = draw.integer(2, 3), torch.tensor(draw.integer(40, 99))
    latents, prompts = draw.latents(batch, 4, 6, 10), draw_prompts(draw, batch)
    denoiser, scale = tiny.denoiser(device), draw_scale(draw, kind)
    answer = candidate.guided_prediction(denoiser, latents, t, *prompts.values(), scale)
    run = functools.cache(lambda: one_step(latents, t, prompts, scale, device))
    assert_calls(denoiser.calls, library=lambda: run().calls, names=CALL)
    assert_matches(
        answer,
        library=lambda: run().steps[0][0],
        truth=lambda: denoiser.function(*run().calls[0]).double(),
        what="the prediction",
    )


@todo("4.3")
@pytest.mark.parametrize("kind", ["below one", "usual"])
def test_a_fraction_of_a_timestep_stays_one(candidate: Any, draw: Draw, kind: str) -> None:
    """The denoiser is asked at t itself, which need not be whole; a number will do as well."""
    latents, prompts = draw.latents(2, 4, 3, 5), draw_prompts(draw, 2)
    t = torch.tensor(draw.integer(40, 99) + draw.uniform(0.2, 0.8))
    denoiser = recorded(lambda latents, t, embeds: latents)
    scale = draw_scale(draw, kind)
    candidate.guided_prediction(denoiser, latents, t, *prompts.values(), scale)
    assert_equals(len(denoiser.calls), value=1, what="how often the denoiser was called")
    assert_property(comparable(denoiser.calls[0][1]), equals=lambda: float(t), what="its t")


def rescaled(guided_: Tensor, cond: Tensor, rescale: float) -> Tensor:
    """Lin et al. 2023, section 3.4; a sample without spread stays as it is."""
    axes = list(range(1, guided_.dim()))
    now, wanted = guided_.std(axes, keepdim=True), cond.std(axes, keepdim=True)
    resized = torch.where(now == 0, guided_, guided_ * wanted / now)
    return rescale * resized + (1 - rescale) * guided_


def draw_uneven(draw: Draw, *shape: int) -> Tensor:
    """A tensor whose samples and channels differ in mean and spread, so that every axis counts."""
    narrow = (*shape[:2], *(1,) * (len(shape) - 2))
    spread, mean = draw.tensor(*narrow, low=0.5, high=3), draw.tensor(*narrow, low=-2, high=2)
    return draw.latents(*shape) * spread + mean + 1


@todo("4.4")
@pytest.mark.parametrize("amount", ["none", "part", "all"])
@pytest.mark.parametrize(
    "shape", [(3, 4, 6, 10), (2, 15, 8), (2, 4, 3, 6, 5)], ids=["image", "tokens", "video"]
)
def test_each_sample_is_rescaled_towards_the_spread_of_cond(
    candidate: Any, draw: Draw, shape: tuple[int, ...], amount: str
) -> None:
    """rescale_guidance is rescale_noise_cfg, for any number of axes."""
    library = library_function(
        "pipelines/stable_diffusion/pipeline_stable_diffusion.py", "rescale_noise_cfg"
    )
    mine, cond = draw_uneven(draw, *shape) * draw.uniform(2, 5), draw_uneven(draw, *shape)
    rescale = {"none": 0.0, "part": draw_share(draw), "all": 1.0}[amount]
    assert_matches(
        candidate.rescale_guidance(mine, cond, rescale),
        library=lambda: library(mine, cond, rescale),
        truth=lambda: rescaled(mine.double(), cond.double(), rescale),
        what="the rescaled prediction",
    )


@todo("4.4")
@pytest.mark.parametrize("constant", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("amount", ["none", "part", "all"])
def test_a_prediction_without_spread_stays_as_it_is(
    candidate: Any, draw: Draw, amount: str, constant: float
) -> None:
    """Where guided's deviation is 0 (rescale_noise_cfg divides by it) nothing is rescaled."""
    mine, cond = draw_uneven(draw, 4, 4, 6, 10) * draw.uniform(2, 5), draw_uneven(draw, 4, 4, 6, 10)
    flat, flat_too, flat_cond = draw.sample(range(4), 3)
    mine[flat] = mine[flat_too] = constant
    cond[flat_too] = cond[flat_cond] = draw.choice([0.0, 0.5, 1.0])
    rescale = {"none": 0.0, "part": draw_share(draw), "all": 1.0}[amount]
    assert_matches_formula(
        candidate.rescale_guidance(mine, cond, rescale),
        computed=lambda: rescaled(mine, cond, rescale),
        truth=lambda: rescaled(mine.double(), cond.double(), rescale),
        what=f"the rescaled prediction (guided is all {constant} in samples {flat} and {flat_too})",
    )


@todo("4.4", guards="the dtype of the prediction")
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=["float16", "bfloat16"])
def test_a_half_precision_prediction_stays_so(
    candidate: Any, draw: Draw, dtype: torch.dtype
) -> None:
    """At rescale 0 guided comes back, in its own dtype."""
    mine, cond = (draw.latents(2, 4, 6, 10, dtype=dtype) for _ in range(2))
    assert_property(
        candidate.rescale_guidance(mine, cond, 0.0),
        equals=mine.clone,
        what="the prediction that was not rescaled",
    )


def given_by_the_pipeline(run: Callable[[], tiny.Run], who: str, turn: int, place: int) -> Any:
    """The argument at this place that the pipeline gave its UNet or its scheduler's step."""
    calls = run().calls if who == "the denoiser" else run().steps
    return comparable(calls[turn][place])


def assert_same_run(
    denoiser: Recorded, steps: list[tuple[Any, ...]], run: Callable[[], tiny.Run]
) -> None:
    """Turn by turn, the denoiser and scheduler.step were given what the pipeline gives them."""
    assert_equals(
        told(denoiser.calls),
        library=lambda: told(run().calls),
        what="the calls of the denoiser",
    )
    assert_equals(
        told(steps), library=lambda: told(run().steps), what="the calls of scheduler.step"
    )
    turns = list(zip(denoiser.calls, steps, strict=True))
    for turn, (call, step) in enumerate(turns):
        for who, names, given in (
            ("the denoiser", CALL, call),
            ("scheduler.step", schedulers.STEP, step),
        ):
            for place, name in enumerate(names):
                assert_agrees(
                    comparable(given[place]),
                    library=functools.partial(given_by_the_pipeline, run, who, turn, place),
                    what=f"turn {turn} of the loop: the `{name}` that {who} was given",
                    share=RUN_SHARE,
                )


def sample(
    candidate: Any, draw: Draw, device: str, name: str, scale: float, n: int, spacing: str = ""
) -> tuple[Tensor, Recorded, list[tuple[Any, ...]], Callable[[], tiny.Run]]:
    """A run of the learner's loop: its result, its calls and steps, and the pipeline's own run."""
    # With leading, init_noise_sigma is just what scale_model_input divides by in the first turn.
    spacing = spacing or draw.choice(["linspace", "trailing"])
    pipe = tiny.pipeline(schedulers.scheduler(name, timestep_spacing=spacing), device)
    scheduler, denoiser = tiny.lent(schedulers.twin(pipe.scheduler)), tiny.denoiser(device)
    latents, prompts = draw.latents(2, 4, 6, 10), draw_prompts(draw, 2)
    answer = candidate.guided_sample(denoiser, scheduler, latents, *prompts.values(), scale, n)
    run = functools.cache(
        lambda: tiny.run_of(pipe, latents, guidance_scale=scale, num_inference_steps=n, **prompts)
    )
    return answer, denoiser, scheduler.target.steps, run


@todo("4.5")
@pytest.mark.parametrize("name", SCHEDULERS)
def test_the_loop_runs_as_the_pipeline_does(
    candidate: Any, draw: Draw, device: str, name: str
) -> None:
    """Every call of the denoiser and of step, and the latents at the end, are the pipeline's."""
    scale, n = draw_scale(draw, "usual"), draw.integer(3, 4)
    answer, denoiser, steps, run = sample(candidate, draw, device, name, scale, n)
    assert_same_run(denoiser, steps, run)
    assert_agrees(answer, library=lambda: run().latents, what="the final latents", share=RUN_SHARE)


@todo("4.5")
def test_the_initial_noise_is_that_of_the_run(candidate: Any, draw: Draw, device: str) -> None:
    """init_noise_sigma is read when set_timesteps has laid out the run: before, it is another."""
    # Only with leading spacing does the run begin below the last training step.
    name, scale = "EulerDiscreteScheduler", draw_scale(draw, "usual")
    answer, denoiser, steps, run = sample(candidate, draw, device, name, scale, 3, "leading")
    assert_same_run(denoiser, steps, run)
    assert_agrees(answer, library=lambda: run().latents, what="the final latents", share=RUN_SHARE)


@todo("4.5")
@pytest.mark.parametrize("kind", ["zero", "below one", "one"])
def test_the_loop_without_guidance_asks_about_the_prompt_alone(
    candidate: Any, draw: Draw, device: str, kind: str
) -> None:
    """At scale 1 and below every call has batch B and the prompts' embeddings."""
    name, scale = "EulerDiscreteScheduler", draw_scale(draw, kind)
    answer, denoiser, steps, run = sample(candidate, draw, device, name, scale, n=2)
    assert_same_run(denoiser, steps, run)
    assert_agrees(answer, library=lambda: run().latents, what="the final latents", share=RUN_SHARE)


def handed_over_by_dit(output: Tensor, scale: float) -> Tensor:
    """What DiTPipeline, whose halves are the other way round, makes of this answer."""
    uncond, cond = output.chunk(2)
    turn = dit.first_turn(torch.cat([cond, uncond]), scale)
    return turn.model_output.chunk(2)[0]  # the second half is the same once more


@todo("4.6")
@pytest.mark.parametrize("case", ["usual", "batch is width"])
def test_epsilon_is_guided_and_the_variance_dropped(candidate: Any, draw: Draw, case: str) -> None:
    """The result is what DiTPipeline, its halves swapped, hands to its scheduler."""
    batch, channels, height = draw.integer(2, 3), draw.integer(5, 7), draw.choice([5, 9])
    width = batch if case == "batch is width" else 8
    output = draw.latents(2 * batch, 2 * channels, height, width)
    scale = draw_scale(draw, "usual")
    assert_matches(
        candidate.guide_learned_sigma(output, scale),
        library=lambda: handed_over_by_dit(output, scale),
        truth=lambda: guided(output[:, :channels], scale),
        what="the guided prediction",
    )
