"""Lab 04 of diffsynth: the learner's loops against six schedulers, two pipelines and a guider."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from diffusers.guiders import ClassifierFreeGuidance
from diffusers.utils import logging
from diffusers.utils.torch_utils import randn_tensor
from torch import Tensor

from infralens.examiner import (
    Draw,
    Recorded,
    assert_agrees,
    assert_calls,
    assert_equals,
    assert_raises,
    recorded,
    todo,
    told,
    unpack,
)
from infralens.suites import schedulers
from infralens.suites.diffsynth.lab_04_scheduler_loop_reading import tiny

logging.set_verbosity_error()  # each guider says that guiders are experimental

DDIM, EULER, HEUN = "DDIMScheduler", "EulerDiscreteScheduler", "HeunDiscreteScheduler"
ANCESTRAL, PNDM = "EulerAncestralDiscreteScheduler", "PNDMScheduler"
FLOW = "FlowMatchEulerDiscreteScheduler"
TURN = ("latents", "t", "condition", "model_output", "timestep", "sample")


def draw_scheduler(draw: Draw, name: str) -> Any:
    """A scheduler of this class, with a schedule of its own."""
    if name == FLOW:
        return schedulers.scheduler(name, shift=draw.uniform(3, 6))
    # With leading, init_noise_sigma is what scale_model_input divides by in the first iteration.
    return schedulers.scheduler(name, timestep_spacing=draw.choice(["linspace", "trailing"]))


def draw_short_leading(draw: Draw, name: str) -> Any:
    """A scheduler whose init_noise_sigma is much smaller once a short run is laid out."""
    ends = {"beta_start": draw.uniform(0.008, 0.009), "beta_end": draw.uniform(0.11, 0.13)}
    return schedulers.scheduler(name, timestep_spacing="leading", **ends)


def draw_latents(draw: Draw) -> Tensor:
    """Noise for a batch, now and then as wide as there are images."""
    return draw.latents(*draw.choice([(3, 4, 6, 10), (2, 4, 10, 6), (4, 4, 6, 4)]))


def draw_condition(draw: Draw, latents: Tensor) -> Tensor:
    """What the denoiser is conditioned on: tokens for each image."""
    return draw.latents(len(latents), draw.choice([5, 7]), tiny.WIDTH) * 2


def draw_generator(draw: Draw) -> Callable[[], torch.Generator]:
    """Makes a generator that has drawn something since it was seeded; each time the same one."""
    seed, before = int(draw.uniform(1, 9) * 1e6), draw.integer(1, 9)

    def generator() -> torch.Generator:
        made = torch.Generator().manual_seed(seed)
        torch.randn(before, generator=made)
        return made

    return generator


def assert_same_run(
    denoiser: Recorded, seen: tiny.LentScheduler, run: Callable[[], tiny.Run]
) -> None:
    """In each iteration the denoiser and scheduler.step were given what the library gives them."""
    mine = tiny.Run(denoiser.calls, seen.steps)
    assert_equals(
        told(mine.calls),
        library=lambda: told(run().calls),
        what="the calls of the denoiser",
    )
    assert_equals(
        told(mine.steps),
        library=lambda: told(run().steps),
        what="the calls of scheduler.step",
    )
    assert_calls(
        mine.turns,
        library=lambda: run().turns,
        names=TURN,
        of="the denoiser and scheduler.step",
    )


def plain_run(
    scheduler: Any,
    latents: Tensor,
    n: int,
    condition: Tensor,
    generator: Any = None,
) -> tiny.Run:
    """The loop on a scheduler of diffusers, from pure noise."""
    denoiser = tiny.denoiser()
    scheduler.set_timesteps(n)
    run = tiny.loop(
        scheduler,
        latents * getattr(scheduler, "init_noise_sigma", 1.0),
        lambda i, seen, t: denoiser(seen, t, condition),
        generator=generator,
    )
    run.calls = denoiser.calls
    return run


@todo("4.1", guards="the state, apart from what the denoiser is shown of it")
@pytest.mark.parametrize("name", [EULER, HEUN])
def test_step_is_given_the_state_itself(candidate: Any, draw: Draw, name: str) -> None:
    """step gets the scaled noise at first, then what it made itself in the iteration before."""
    library, n = draw_scheduler(draw, name), draw.integer(3, 4)
    latents = draw_latents(draw)
    scheduler, seen = tiny.lend(candidate, schedulers.twin(library))
    condition = draw_condition(draw, latents)
    candidate.denoise(tiny.denoiser(), scheduler, latents, n, condition, None)

    def steps() -> list[tuple[Any, ...]]:
        library.set_timesteps(n)
        states = [latents * library.init_noise_sigma, *seen.made]
        return [(None, t, state) for t, state in zip(library.timesteps, states, strict=False)]

    assert_equals(
        told(seen.steps),
        library=lambda: told(steps()),
        what="the calls of scheduler.step",
    )
    assert_calls(seen.steps, library=steps, names=("", "", "sample"), of="scheduler.step")


@todo("4.1")
@pytest.mark.parametrize("name", [DDIM, EULER, ANCESTRAL, HEUN, PNDM, FLOW])
def test_every_turn_is_that_of_the_library(candidate: Any, draw: Draw, name: str) -> None:
    """Every call of the denoiser and of step, and the result, are those of diffusers."""
    library, n = draw_scheduler(draw, name), draw.integer(4, 6)
    latents = draw_latents(draw)
    condition, generator = draw_condition(draw, latents), draw_generator(draw)
    scheduler, seen = tiny.lend(candidate, schedulers.twin(library))
    denoiser = tiny.denoiser()
    answer = candidate.denoise(denoiser, scheduler, latents, n, condition, generator())
    run = functools.cache(lambda: plain_run(library, latents, n, condition, generator()))
    assert_same_run(denoiser, seen, run)
    assert_agrees(answer, library=lambda: run().latents, what="the final latents")


@todo("4.1")
def test_a_list_of_generators_reaches_step_whole(candidate: Any, draw: Draw) -> None:
    """With a generator for each image, every image gets the noise of its own."""
    library, n, latents = draw_scheduler(draw, ANCESTRAL), draw.integer(3, 4), draw_latents(draw)
    condition, makers = draw_condition(draw, latents), [draw_generator(draw) for _ in latents]
    scheduler, seen = tiny.lend(candidate, schedulers.twin(library))
    denoiser, given = tiny.denoiser(), [make() for make in makers]
    answer = candidate.denoise(denoiser, scheduler, latents, n, condition, given)
    run = functools.cache(
        lambda: plain_run(library, latents, n, condition, [make() for make in makers])
    )
    assert_same_run(denoiser, seen, run)
    assert_agrees(answer, library=lambda: run().latents, what="the final latents")


@todo("4.1")
@pytest.mark.parametrize("name", [EULER, PNDM])
def test_a_scheduler_that_made_another_run_begins_anew(
    candidate: Any, draw: Draw, name: str
) -> None:
    """Each run begins with set_timesteps, even when the scheduler made one of the same length."""
    library, n, latents = draw_scheduler(draw, name), draw.integer(5, 6), draw_latents(draw)
    condition, used = draw_condition(draw, latents), schedulers.twin(library)
    plain_run(used, draw.latents(*latents.shape), n, condition)
    scheduler, seen = tiny.lend(candidate, used)
    denoiser = tiny.denoiser()
    answer = candidate.denoise(denoiser, scheduler, latents, n, condition, None)
    run = functools.cache(lambda: plain_run(library, latents, n, condition))
    assert_same_run(denoiser, seen, run)
    assert_agrees(answer, library=lambda: run().latents, what="the final latents")


@todo("4.1")
@pytest.mark.parametrize("name", [EULER, HEUN])
def test_the_noise_is_as_large_as_this_run_wants_it(candidate: Any, draw: Draw, name: str) -> None:
    """init_noise_sigma is read after set_timesteps: the spacing "leading" begins with less."""
    library, n, latents = draw_short_leading(draw, name), draw.integer(4, 5), draw_latents(draw)
    condition = draw_condition(draw, latents)
    scheduler, seen = tiny.lend(candidate, schedulers.twin(library))
    denoiser = tiny.denoiser()
    answer = candidate.denoise(denoiser, scheduler, latents, n, condition, None)
    run = functools.cache(lambda: plain_run(library, latents, n, condition))
    assert_same_run(denoiser, seen, run)
    assert_agrees(answer, library=lambda: run().latents, what="the final latents")


# How many steps are made of how many: no half, so that the rest cannot be taken for them.
PARTS = [(n, kept) for n in range(5, 9) for kept in range(2, n - 1) if 2 * kept != n]


def draw_strength(draw: Draw, kind: str) -> tuple[int, float]:
    """Steps, and a strength that makes all of them, or some and a little or much of another."""
    n, kept = draw.choice(PARTS)
    more = {"and a little": draw.uniform(0.1, 0.4), "and much": draw.uniform(0.6, 0.9)}
    return n, 1.0 if kind == "all" else (kept + more[kind]) / n


def assert_same_beginning(
    denoiser: Recorded,
    seen: tiny.LentScheduler,
    library: Any,
    run: Callable[[], tiny.Run],
) -> None:
    """The same timesteps are left, and the scheduler knows how many were cut off."""
    assert_equals(
        told(denoiser.calls),
        library=lambda: told(run().calls),
        what="the calls of the denoiser",
    )
    if hasattr(library, "set_begin_index"):
        assert_equals(
            seen.target.begin_index,
            library=lambda: run() and library.begin_index,
            what="what set_begin_index was given",
        )


def run_from_an_image(
    pipe: Any,
    original: Tensor,
    strength: float,
    n: int,
    condition: Tensor,
    generator: torch.Generator | list[torch.Generator],
) -> tiny.Run:
    """StableDiffusionImg2ImgPipeline on 4-channel latents, which it takes as they are."""
    return tiny.run_of(
        pipe,
        condition,
        image=original,
        strength=strength,
        num_inference_steps=n,
        generator=generator,
    )


def draw_image_to_image(draw: Draw, kind: str) -> tuple[Any, ...]:
    """Latents, steps and strength, condition, and a seed: noise comes before the steps' own."""
    original, (n, strength) = draw_latents(draw) * 0.8 + 0.3, draw_strength(draw, kind)
    condition, generator = draw_condition(draw, original), draw_generator(draw)
    return original, n, strength, condition, generator


@todo("4.2")
@pytest.mark.parametrize(
    ("name", "kind"),
    [
        (DDIM, "and a little"),
        (EULER, "and a little"),
        (HEUN, "and a little"),
        (ANCESTRAL, "and much"),
        (HEUN, "and much"),
        (EULER, "all"),
    ],
)
def test_the_run_from_an_image_is_that_of_the_pipeline(
    candidate: Any, draw: Draw, name: str, kind: str
) -> None:
    """First timestep, begin_index and every iteration are StableDiffusionImg2ImgPipeline's."""
    original, n, strength, condition, generator = draw_image_to_image(draw, kind)
    pipe = tiny.pipeline(
        "StableDiffusionImg2ImgPipeline", draw_scheduler(draw, name), original.device
    )
    scheduler, seen = tiny.lend(candidate, schedulers.twin(pipe.scheduler))
    denoiser, used = tiny.denoiser(), generator()
    noise = randn_tensor(original.shape, generator=used, device=original.device)
    answer = candidate.denoise_from(
        denoiser, scheduler, original, noise, strength, n, condition, used
    )
    run = functools.cache(
        lambda: run_from_an_image(pipe, original, strength, n, condition, generator())
    )
    assert_same_beginning(denoiser, seen, pipe.scheduler, run)
    assert_same_run(denoiser, seen, run)
    assert_agrees(answer, library=lambda: run().latents, what="the final latents")


@todo("4.2")
def test_a_list_of_generators_reaches_the_steps_from_an_image(candidate: Any, draw: Draw) -> None:
    """With a generator for each image, each goes on from where its own noise was drawn."""
    original, n, strength, condition, _ = draw_image_to_image(draw, "and much")
    makers = [draw_generator(draw) for _ in original]
    pipe = tiny.pipeline(
        "StableDiffusionImg2ImgPipeline", draw_scheduler(draw, ANCESTRAL), original.device
    )
    scheduler, seen = tiny.lend(candidate, schedulers.twin(pipe.scheduler))
    denoiser, used = tiny.denoiser(), [make() for make in makers]
    noise = randn_tensor(original.shape, generator=used, device=original.device)
    answer = candidate.denoise_from(
        denoiser, scheduler, original, noise, strength, n, condition, used
    )
    run = functools.cache(
        lambda: run_from_an_image(
            pipe, original, strength, n, condition, [make() for make in makers]
        )
    )
    assert_same_run(denoiser, seen, run)
    assert_agrees(answer, library=lambda: run().latents, what="the final latents")


@todo("4.2")
def test_a_used_scheduler_begins_in_its_middle_anew(candidate: Any, draw: Draw) -> None:
    """The run from an image begins with set_timesteps too, and with a begin_index of its own."""
    original, n, strength, condition, generator = draw_image_to_image(draw, "and a little")
    pipe = tiny.pipeline(
        "StableDiffusionImg2ImgPipeline", draw_scheduler(draw, EULER), original.device
    )
    before = schedulers.twin(pipe.scheduler)
    plain_run(before, draw.latents(*original.shape), n, condition)
    scheduler, seen = tiny.lend(candidate, before)
    denoiser, used = tiny.denoiser(), generator()
    noise = randn_tensor(original.shape, generator=used, device=original.device)
    answer = candidate.denoise_from(
        denoiser, scheduler, original, noise, strength, n, condition, used
    )
    run = functools.cache(
        lambda: run_from_an_image(pipe, original, strength, n, condition, generator())
    )
    assert_same_run(denoiser, seen, run)
    assert_agrees(answer, library=lambda: run().latents, what="the final latents")


def flow_run_from(
    library: Any, original: Tensor, noise: Tensor, strength: float, n: int, condition: Tensor
) -> tiny.Run:
    """The same rule on FlowMatchEulerDiscreteScheduler, which that pipeline does not know."""
    denoiser, begin = tiny.denoiser(), n - int(n * strength)
    library.set_timesteps(n)
    library.set_begin_index(begin)
    timesteps = library.timesteps[begin:]
    run = tiny.loop(
        library,
        library.scale_noise(original, timesteps[:1], noise),
        lambda i, seen, t: denoiser(seen, t, condition),
        timesteps,
    )
    run.calls = denoiser.calls
    return run


@todo("4.2")
@pytest.mark.parametrize("kind", ["and a little", "all"])
def test_flow_matching_begins_with_scale_noise(candidate: Any, draw: Draw, kind: str) -> None:
    """FlowMatchEuler has neither add_noise nor scale_model_input, and the loop does without."""
    original, n, strength, condition, _ = draw_image_to_image(draw, kind)
    library, noise = draw_scheduler(draw, FLOW), draw.latents(*original.shape)
    scheduler, seen = tiny.lend(candidate, schedulers.twin(library))
    denoiser = tiny.denoiser()
    answer = candidate.denoise_from(
        denoiser, scheduler, original, noise, strength, n, condition, None
    )
    run = functools.cache(lambda: flow_run_from(library, original, noise, strength, n, condition))
    assert_same_beginning(denoiser, seen, library, run)
    assert_same_run(denoiser, seen, run)
    assert_agrees(answer, library=lambda: run().latents, what="the final latents")


@todo("4.2")
@pytest.mark.parametrize("name", [DDIM, HEUN])
def test_no_step_left_is_said(candidate: Any, draw: Draw, name: str) -> None:
    """A strength that leaves no step is a ValueError (the pipeline fails on a shape instead)."""
    original, n = draw_latents(draw), draw.integer(3, 9)
    condition, noise = draw_condition(draw, original), draw.latents(*original.shape)
    for strength in (0.0, draw.uniform(0.1, 0.4) / n, draw.uniform(0.6, 0.9) / n):
        scheduler, _ = tiny.lend(candidate, draw_scheduler(draw, name))
        assert_raises(
            functools.partial(
                candidate.denoise_from,
                *(tiny.denoiser(), scheduler, original, noise, strength, n, condition, None),
            ),
            "ValueError",
            what=f"{n} steps at strength {strength:.3g}",
        )


def watched(
    candidate: Any,
    draw: Draw,
    name: str,
    stop_at: int | None,
    n: int,
    *,
    of: Callable[[Draw, str], Any] = draw_scheduler,
    used: bool = False,
) -> tuple[Any, Recorded, Recorded, tiny.LentScheduler, Callable[[], tiny.Run]]:
    """The learner's watched run, all that was seen of it, and the pipeline's own."""
    latents = draw_latents(draw)
    condition = draw_condition(draw, latents)
    pipe = tiny.pipeline("StableDiffusionPipeline", of(draw, name), latents.device)
    lent = schedulers.twin(pipe.scheduler)
    if used:
        plain_run(lent, draw.latents(*latents.shape), n, condition)
    scheduler, seen = tiny.lend(candidate, lent)
    denoiser = tiny.denoiser()
    on_step = recorded(lambda i, t, x: None if stop_at is None else i == stop_at, "on_step")
    answer = candidate.denoise_watched(denoiser, scheduler, latents, n, condition, on_step)
    # The pipeline demands multiples of 8 and then takes the latents as they are.
    sides = {"height": latents.shape[-2] * 8, "width": latents.shape[-1] * 8}
    run = functools.cache(
        lambda: tiny.run_of(
            pipe, condition, stop_at=stop_at, latents=latents, num_inference_steps=n, **sides
        )
    )
    return answer, denoiser, on_step, seen, run


@todo("4.3")
@pytest.mark.parametrize("name", [DDIM, EULER, HEUN, PNDM])
def test_the_callback_sees_every_step(candidate: Any, draw: Draw, name: str) -> None:
    """on_step gets what StableDiffusionPipeline gives its callback, and the run is the same."""
    n = draw.integer(3, 6)
    answer, denoiser, on_step, seen, run = watched(candidate, draw, name, None, n)
    latents, _ = unpack(answer, "latents", "progress")
    assert_same_run(denoiser, seen, run)
    assert_calls(
        on_step.calls,
        library=lambda: run().watched,
        names=("i", "t", "latents"),
        of="on_step",
    )
    assert_agrees(latents, library=lambda: run().latents, what="the final latents")


@todo("4.3")
@pytest.mark.parametrize("used", [False, True], ids=["new", "used"])
def test_the_watched_run_begins_as_a_run_of_its_own(candidate: Any, draw: Draw, used: bool) -> None:
    """set_timesteps comes first, on a used scheduler too, and init_noise_sigma is read after it."""
    answer, denoiser, _, seen, run = watched(
        candidate, draw, EULER, None, draw.integer(4, 5), of=draw_short_leading, used=used
    )
    latents, _ = unpack(answer, "latents", "progress")
    assert_same_run(denoiser, seen, run)
    assert_agrees(latents, library=lambda: run().latents, what="the final latents")


@todo("4.3")
@pytest.mark.parametrize("name", [EULER, HEUN, PNDM])
def test_the_bar_moves_once_a_step(candidate: Any, draw: Draw, name: str) -> None:
    """progress holds the iterations after which the bar of StableDiffusionPipeline is updated."""
    answer, *_, run = watched(candidate, draw, name, None, draw.integer(3, 6))
    _, progress = unpack(answer, "latents", "progress")
    assert_equals(progress, library=lambda: run().progress, what="progress")


@todo("4.3")
@pytest.mark.parametrize(("name", "turn"), [(HEUN, "even"), (HEUN, "odd"), (PNDM, "even")])
def test_true_stops_the_run(candidate: Any, draw: Draw, name: str, turn: str) -> None:
    """After on_step returns True no iteration is made; the run so far is what is returned."""
    stop_at, n = 2 if turn == "even" else draw.choice([1, 3]), draw.integer(5, 6)
    answer, denoiser, on_step, _, run = watched(candidate, draw, name, stop_at, n)
    latents, progress = unpack(answer, "latents", "progress")
    assert_calls(
        on_step.calls,
        library=lambda: run().watched,
        names=("i", "t", "latents"),
        of=f"on_step, which returned True in iteration {stop_at},",
    )
    assert_equals(
        told(denoiser.calls),
        library=lambda: told(run().calls),
        what=f"the calls of the denoiser, stopped in iteration {stop_at}",
    )
    assert_equals(progress, library=lambda: run().progress, what="progress")
    assert_agrees(latents, library=lambda: run().latents, what="the latents when it stopped")


# First guided iteration and first one that is not again. No window is the same from both ends.
WINDOWS = [
    (n, first, stop)
    for n in range(6, 11)
    for first in range(1, n - 3)
    for stop in range(first + 2, n)
    if first + stop not in (n - 1, n)
]


def draw_window(draw: Draw, kind: str) -> tuple[int, float, float]:
    """Steps and a window: its ends a little or much behind whole iterations, or none, or all."""
    n, first, stop = draw.choice(WINDOWS)
    little = draw.uniform(0.1, 0.25), draw.uniform(0.3, 0.45)
    much = draw.uniform(0.55, 0.7), draw.uniform(0.75, 0.9)
    if kind == "all":
        return n, 0.0, 1.0
    if kind == "none":
        return n, (first + little[0]) / n, (first + much[0]) / n
    ends = little if kind == "a little" else much
    return n, (first + ends[0]) / n, (stop + ends[1]) / n


def windowed_run(
    library: Any, latents: Tensor, n: int, branches: Tensor, scale: float, start: float, end: float
) -> tiny.Run:
    """The loop on a scheduler of diffusers, guided when ClassifierFreeGuidance says so."""
    denoiser = tiny.denoiser()
    guider = ClassifierFreeGuidance(guidance_scale=scale, start=start, stop=end)

    def ask(i: int, seen: Tensor, t: Any) -> Tensor:
        guider.set_state(step=i, num_inference_steps=n, timestep=t)
        if not guider._is_cfg_enabled():
            alone: Tensor = denoiser(seen, t, branches.chunk(2)[1])
            return alone
        uncond, cond = denoiser(torch.cat([seen, seen]), t, branches).chunk(2)
        pred: Tensor = guider.forward(cond, uncond)[0]
        return pred

    library.set_timesteps(n)
    run = tiny.loop(library, latents * getattr(library, "init_noise_sigma", 1.0), ask)
    run.calls = denoiser.calls
    return run


def guided(
    candidate: Any,
    draw: Draw,
    name: str,
    kind: str,
    *,
    of: Callable[[Draw, str], Any] = draw_scheduler,
    used: bool = False,
) -> tuple[Any, Recorded, tiny.LentScheduler, Callable[[], tiny.Run]]:
    """The learner's guided run, what was seen of it, and the library's."""
    library, latents = of(draw, name), draw_latents(draw)
    branches = draw_condition(draw, latents.repeat(2, 1, 1, 1))
    negative, positive = branches.chunk(2)
    scale, (n, start, end) = draw.uniform(2.5, 5), draw_window(draw, kind)
    lent = schedulers.twin(library)
    if used:
        plain_run(lent, draw.latents(*latents.shape), n, positive)
    scheduler, seen = tiny.lend(candidate, lent)
    denoiser = tiny.denoiser()
    answer = candidate.guided_window(
        denoiser, scheduler, latents, n, negative, positive, scale, start, end
    )
    run = functools.cache(lambda: windowed_run(library, latents, n, branches, scale, start, end))
    return answer, denoiser, seen, run


def rows(calls: list[tuple[Any, ...]]) -> list[int]:
    """How many rows each call of the denoiser had."""
    return [len(latents) for latents, *_ in calls]


def assert_same_rows(denoiser: Recorded, run: Callable[[], tiny.Run]) -> None:
    """The denoiser had 2B rows in the same iterations."""
    assert_equals(
        rows(denoiser.calls),
        library=lambda: rows(run().calls),
        what="how many rows the denoiser had, iteration by iteration",
    )


@todo("4.4", guards="which iterations are guided, before it is asked what is in them")
@pytest.mark.parametrize(("name", "kind"), [(FLOW, "a little"), (DDIM, "much"), (EULER, "none")])
def test_the_window_holds_the_guiders_turns(
    candidate: Any, draw: Draw, name: str, kind: str
) -> None:
    """Calls of 2B rows come in the iterations in which ClassifierFreeGuidance is on, else of B."""
    _, denoiser, _, run = guided(candidate, draw, name, kind)
    assert_same_rows(denoiser, run)


@todo("4.4", guards="the runs of flow matching and of windows that are whole or empty")
@pytest.mark.parametrize(
    ("name", "kind"), [(FLOW, "all"), (EULER, "a little"), (DDIM, "much"), (DDIM, "none")]
)
def test_guided_and_plain_turns_make_the_guiders_run(
    candidate: Any, draw: Draw, name: str, kind: str
) -> None:
    """Every call of the denoiser and of step, and the result, follow ClassifierFreeGuidance."""
    answer, denoiser, seen, run = guided(candidate, draw, name, kind)
    assert_same_rows(denoiser, run)
    assert_same_run(denoiser, seen, run)
    assert_agrees(answer, library=lambda: run().latents, what="the final latents")


@todo("4.4")
@pytest.mark.parametrize("used", [False, True], ids=["new", "used"])
def test_the_guided_run_begins_as_a_run_of_its_own(candidate: Any, draw: Draw, used: bool) -> None:
    """set_timesteps comes first, on a used scheduler too, and init_noise_sigma is read after it."""
    answer, denoiser, seen, run = guided(
        candidate, draw, EULER, "a little", of=draw_short_leading, used=used
    )
    assert_same_rows(denoiser, run)
    assert_same_run(denoiser, seen, run)
    assert_agrees(answer, library=lambda: run().latents, what="the final latents")


def draw_seeds(draw: Draw, count: int) -> list[int]:
    """Seeds up to 2³¹, others in every round."""
    return [int(2**31 * float(share)) for share in draw.tensor(count).double()]


def alone(seed: int) -> torch.Generator:
    """A new generator with this seed."""
    return torch.Generator().manual_seed(seed)


@todo("4.5")
@pytest.mark.parametrize("shape", [(3, 4, 6, 10), (4, 4, 6, 4), (2, 4, 3, 6, 5), (3, 9, 8)])
def test_each_row_is_drawn_from_its_own_seed(
    candidate: Any, draw: Draw, shape: tuple[int, ...]
) -> None:
    """The noise is randn_tensor's with a list of generators, to the bit."""
    seeds = draw_seeds(draw, shape[0])
    if shape[0] == 4:  # the same seed twice gives the same image twice
        seeds[-1] = seeds[0]
    answer = candidate.batch_noise(seeds, shape)
    assert_equals(
        answer,
        library=lambda: randn_tensor(shape, generator=[alone(seed) for seed in seeds]),
        what="the noise",
    )


@todo("4.5")
def test_the_same_seeds_give_the_same_noise_again(candidate: Any, draw: Draw) -> None:
    """A second call with the same seeds begins with new generators."""
    shape, seeds = (3, 4, 6, 10), draw_seeds(draw, 3)
    for time in ("first", "second"):
        assert_equals(
            candidate.batch_noise(seeds, shape),
            library=lambda: randn_tensor(shape, generator=[alone(seed) for seed in seeds]),
            what=f"the noise of the {time} call",
        )


@todo("4.5", guards="what the seeds are for: one image of a batch can be made again alone")
def test_an_image_of_the_batch_can_be_made_again_alone(candidate: Any, draw: Draw) -> None:
    """With Euler ancestral, image k of the batch is the image that its seed makes alone."""
    shape, seeds, k = (3, 4, 6, 10), draw_seeds(draw, 3), draw.integer(0, 2)
    library, n, condition = draw_scheduler(draw, ANCESTRAL), 4, draw.latents(3, 5, tiny.WIDTH)
    noise = candidate.batch_noise(seeds, shape)
    # Nothing is denoised before it is what it must be: noise of another size takes minutes.
    assert_equals(
        noise,
        library=lambda: randn_tensor(shape, generator=[alone(seed) for seed in seeds]),
        what="the noise",
    )

    def after_its_noise(seed: int) -> torch.Generator:
        generator = alone(seed)
        torch.randn((1, *shape[1:]), generator=generator)
        return generator

    in_the_batch = plain_run(
        schedulers.twin(library),
        noise,
        n,
        condition.cpu(),
        [after_its_noise(seed) for seed in seeds],
    )
    single = randn_tensor((1, *shape[1:]), generator=alone(seeds[k]))
    assert_agrees(
        in_the_batch.latents[k : k + 1],
        library=lambda: (
            plain_run(
                library, single, n, condition[k : k + 1].cpu(), after_its_noise(seeds[k])
            ).latents
        ),
        what=f"image {k} of the batch",
    )
