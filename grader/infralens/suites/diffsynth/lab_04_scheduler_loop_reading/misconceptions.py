"""Lab 04 of diffsynth: wrong loops that people really write, each beside its sentence."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

import torch
from torch import Tensor

from infralens.examiner import misconception

PAGE = "handbook/inference-loop.md"
Ask = Callable[[Tensor, Any], Tensor]
Wrong = TypeVar("Wrong", bound=Callable[..., Any])


class Declares(Protocol):
    """A decorator that gives its function back."""

    def __call__(self, wrong: Wrong, /) -> Wrong: ...


def begin(plan: Any, x: Tensor, n: int) -> Tensor:
    """The schedule laid out, the noise as large as it wants it."""
    plan.set_timesteps(n)
    return x * getattr(plan, "init_noise_sigma", 1.0)


def shown(plan: Any, x: Tensor, t: Any) -> Tensor:
    """What the denoiser is to see of the state."""
    if not hasattr(plan, "scale_model_input"):
        return x
    seen: Tensor = plan.scale_model_input(x, t)
    return seen


def handed(plan: Any, generator: Any) -> dict[str, Any]:
    """The generator, where step takes one."""
    takes = "generator" in inspect.signature(plan.step).parameters
    return {"generator": generator} if takes else {}


def turns(plan: Any, x: Tensor, times: Any, ask: Ask, generator: Any = None) -> Tensor:
    """The compact twin of the loop, over these timesteps."""
    with_it = handed(plan, generator)
    for t in times:
        x = plan.step(ask(shown(plan, x, t), t), t, x, **with_it).prev_sample
    return x


def plain(d: Any, plan: Any, x: Tensor, n: int, c: Tensor, g: Any, times: Any = None) -> Tensor:
    """A right run, over other timesteps when they are given (a function of the scheduler's)."""
    x = begin(plan, x, n)
    chosen = plan.timesteps if times is None else times(plan.timesteps)
    return turns(plan, x, chosen, lambda seen, t: d(seen, t, c), g)


def answers_to(todo: str, replaces: str, section: str) -> Callable[[str], Declares]:
    """`misconception` for one function and one section of the page."""
    return lambda name: misconception(todo, name, replaces=replaces, reads=f"{PAGE}#{section}")


the_loop = answers_to("4.1", "denoise", "the-loop")
the_scheduler = answers_to("4.1", "denoise", "what-a-scheduler-has")
the_timesteps = answers_to("4.1", "denoise", "how-often-it-turns")
the_noise = answers_to("4.1", "denoise", "noise-inside-the-loop")
from_image = answers_to("4.2", "denoise_from", "starting-from-an-image")
from_middle = answers_to("4.2", "denoise_from", "where-the-run-begins")
watching = answers_to("4.3", "denoise_watched", "watching")
the_bar = answers_to("4.3", "denoise_watched", "the-progress-bar")
the_window = answers_to("4.4", "guided_window", "a-window-of-guidance")
the_seeds = answers_to("4.5", "batch_noise", "noise-for-each-image")


@the_loop("noise-not-scaled")
def noise_not_scaled(d: Any, plan: Any, x: Tensor, n: int, c: Tensor, g: Any) -> Tensor:
    """The run began with noise of size 1. Multiply it by init_noise_sigma, which is 1 for DDIM and
    PNDM and far larger for Euler and Heun."""
    plan.set_timesteps(n)
    return turns(plan, x, plan.timesteps, lambda seen, t: d(seen, t, c), g)


@the_loop("factor-read-before-set-timesteps")
def factor_too_early(d: Any, plan: Any, x: Tensor, n: int, c: Tensor, g: Any) -> Tensor:
    """init_noise_sigma was read before set_timesteps. It is the size of this run's first level,
    and with the spacing "leading" a short run begins lower: lay out the run first."""
    x = x * getattr(plan, "init_noise_sigma", 1.0)
    plan.set_timesteps(n)
    return turns(plan, x, plan.timesteps, lambda seen, t: d(seen, t, c), g)


@the_loop("input-not-scaled")
def input_not_scaled(d: Any, plan: Any, x: Tensor, n: int, c: Tensor, g: Any) -> Tensor:
    """The denoiser was shown the state without scale_model_input. DDIM does not mind; Euler's state
    carries noise of size σ, which no network saw in training."""
    x = begin(plan, x, n)
    for t in plan.timesteps:
        x = plan.step(d(x, t, c), t, x, **handed(plan, g)).prev_sample
    return x


@the_loop("step-from-scaled-latents")
def step_from_scaled(d: Any, plan: Any, x: Tensor, n: int, c: Tensor, g: Any) -> Tensor:
    """step was given the scaled latents. Only the denoiser sees those: keep them in a variable of
    their own, and step from the state as it was."""
    x = begin(plan, x, n)
    for t in plan.timesteps:
        x = shown(plan, x, t)
        x = plan.step(d(x, t, c), t, x, **handed(plan, g)).prev_sample
    return x


@the_loop("loop-of-dit")
def loop_of_dit(d: Any, plan: Any, x: Tensor, n: int, c: Tensor, g: Any) -> Tensor:
    """The scaled input overwrote the latents and the noise was not multiplied by init_noise_sigma.
    DiTPipeline does both and was written for DDIM, where both change nothing; with Euler it is
    wrong."""
    plan.set_timesteps(n)
    for t in plan.timesteps:
        x = shown(plan, x, t)
        x = plan.step(d(x, t, c), t, x, **handed(plan, g)).prev_sample
    return x


@the_loop("denoiser-called-twice")
def called_twice(d: Any, plan: Any, x: Tensor, n: int, c: Tensor, g: Any) -> Tensor:
    """The denoiser was called twice in a turn. It is the expensive part: call it once, and keep the
    answer. Heun's second call has a timestep, and so a turn, of its own."""

    def ask(seen: Tensor, t: Any) -> Any:
        d(seen, t, c)
        return d(seen, t, c)

    return turns(plan, begin(plan, x, n), plan.timesteps, ask, g)


@the_loop("condition-left-out")
def no_condition(d: Any, plan: Any, x: Tensor, n: int, c: Tensor, g: Any) -> Tensor:
    """The denoiser was asked without the condition (zeros stood in its place). Hand it on in every
    turn."""
    return plain(d, plan, x, n, torch.zeros_like(c), g)


@the_timesteps("duplicates-taken-out")
def no_duplicates(d: Any, plan: Any, x: Tensor, n: int, c: Tensor, g: Any) -> Tensor:
    """A timestep that stands twice in the list was visited once. Heun and PNDM mean it: they ask
    twice at one level."""

    def different(times: Tensor) -> list[Tensor]:
        return [t for i, t in enumerate(times) if i == 0 or t != times[i - 1]]

    return plain(d, plan, x, n, c, g, different)


@the_timesteps("steps-counted-not-timesteps")
def counted(d: Any, plan: Any, x: Tensor, n: int, c: Tensor, g: Any) -> Tensor:
    """The loop made `steps` turns. Heun and PNDM have more timesteps than that: go through
    scheduler.timesteps to its end."""
    return plain(d, plan, x, n, c, g, lambda times: times[:n])


@the_timesteps("timesteps-of-my-own")
def own_timesteps(d: Any, plan: Any, x: Tensor, n: int, c: Tensor, g: Any) -> Tensor:
    """The timesteps were worked out by hand instead of read from scheduler.timesteps. Spacing,
    offset and shift belong to the scheduler's configuration."""
    return plain(d, plan, x, n, c, g, lambda times: torch.arange(n).flip(0) * (int(times[0]) // n))


@the_timesteps("every-other-timestep")
def every_other(d: Any, plan: Any, x: Tensor, n: int, c: Tensor, g: Any) -> Tensor:
    """Timesteps were passed over, in the belief that step reads t and takes the longer way. step
    counts its own calls and goes to the next level of its list; for fewer turns, ask set_timesteps
    for fewer."""
    return plain(d, plan, x, n, c, g, lambda times: times[::2])


@the_timesteps("last-timestep-left-out")
def without_the_last(d: Any, plan: Any, x: Tensor, n: int, c: Tensor, g: Any) -> Tensor:
    """The last timestep was left out. It is a step like the others: the one that ends without
    noise."""
    return plain(d, plan, x, n, c, g, lambda times: times[:-1])


@the_timesteps("laid-out-only-when-it-differs")
def laid_out_once(d: Any, plan: Any, x: Tensor, n: int, c: Tensor, g: Any) -> Tensor:
    """set_timesteps was left out because the scheduler had as many timesteps already. It also sets
    the scheduler back to their beginning: call it for every run."""
    if plan.timesteps is None or len(plan.timesteps) != n:
        plan.set_timesteps(n)
    x = x * getattr(plan, "init_noise_sigma", 1.0)
    return turns(plan, x, plan.timesteps, lambda seen, t: d(seen, t, c), g)


@the_timesteps("set-timesteps-forgotten")
def no_schedule(d: Any, plan: Any, x: Tensor, n: int, c: Tensor, g: Any) -> Tensor:
    """set_timesteps was not called. A new scheduler then walks all of its training steps, or fails,
    and a used one repeats the run before."""
    x = x * getattr(plan, "init_noise_sigma", 1.0)
    return turns(plan, x, plan.timesteps, lambda seen, t: d(seen, t, c), g)


@the_timesteps("timesteps-backwards")
def backwards(d: Any, plan: Any, x: Tensor, n: int, c: Tensor, g: Any) -> Tensor:
    """The timesteps were visited from the cleanest on. A run begins in noise: take them in their
    order."""
    return plain(d, plan, x, n, c, g, lambda times: times.flip(0))


@the_timesteps("turn-number-for-the-timestep")
def number_for_timestep(d: Any, plan: Any, x: Tensor, n: int, c: Tensor, g: Any) -> Tensor:
    """The denoiser was given the number of the turn. It knows noise levels by their timestep t."""
    x = begin(plan, x, n)
    for i, t in enumerate(plan.timesteps):
        output = d(shown(plan, x, t), i, c)
        x = plan.step(output, t, x, **handed(plan, g)).prev_sample
    return x


@the_noise("generator-not-passed")
def no_generator(d: Any, plan: Any, x: Tensor, n: int, c: Tensor, g: Any) -> Tensor:
    """step drew its noise without your generator. Euler ancestral draws in every step; without the
    generator nobody can repeat the run."""
    return plain(d, plan, x, n, c, None)


@the_noise("generator-for-every-step")
def always_generator(d: Any, plan: Any, x: Tensor, n: int, c: Tensor, g: Any) -> Tensor:
    """The generator was passed to a step that has no such parameter: Heun's and PNDM's raise
    TypeError. Look at the signature first, as pipelines do."""
    x = begin(plan, x, n)
    for t in plan.timesteps:
        x = plan.step(d(shown(plan, x, t), t, c), t, x, generator=g).prev_sample
    return x


@the_noise("generator-seeded-every-turn")
def seeded_again(d: Any, plan: Any, x: Tensor, n: int, c: Tensor, g: Any) -> Tensor:
    """The generator was seeded again in the loop, so that every step adds the same noise. Seed it
    once, outside; it goes on by itself."""

    def ask(seen: Tensor, t: Any) -> Any:
        for one in g if isinstance(g, list) else [g] * (g is not None):
            one.manual_seed(one.initial_seed())
        return d(seen, t, c)

    return turns(plan, begin(plan, x, n), plan.timesteps, ask, g)


@the_noise("first-generator-of-the-list")
def first_generator(d: Any, plan: Any, x: Tensor, n: int, c: Tensor, g: Any) -> Tensor:
    """Of a list of generators only the first was used, so the noise of every image hangs on those
    before it. step takes the list: one generator for each image."""
    return plain(d, plan, x, n, c, g[0] if isinstance(g, list) else g)


@the_scheduler("methods-taken-for-granted")
def taken_for_granted(d: Any, plan: Any, x: Tensor, n: int, c: Tensor, g: Any) -> Tensor:
    """Not every scheduler has scale_model_input and init_noise_sigma: flow matching needs neither.
    Ask with hasattr, and do without."""
    plan.set_timesteps(n)
    x = x * plan.init_noise_sigma
    for t in plan.timesteps:
        output = d(plan.scale_model_input(x, t), t, c)
        x = plan.step(output, t, x, **handed(plan, g)).prev_sample
    return x


def rest(plan: Any, n: int, cut: int, told: int | None = None) -> Any:
    """The timesteps that remain when so many are cut off, told to the scheduler."""
    plan.set_timesteps(n)
    if hasattr(plan, "set_begin_index"):
        plan.set_begin_index(cut if told is None else told)
    return plan.timesteps[cut:]


def noised(plan: Any, x: Tensor, noise: Tensor, level: Tensor) -> Tensor:
    """x with the noise of this level, a tensor of one timestep."""
    done: Tensor
    if hasattr(plan, "add_noise"):
        done = plan.add_noise(x, noise, level.expand(len(x)))
    else:
        done = plan.scale_noise(x, level.expand(len(x)), noise)
    return done


def left(n: int, kept: int) -> int:
    """Steps to cut off, when some are kept."""
    if kept < 1:
        raise ValueError("no step is left")
    return n - kept


def from_the(plan: Any, d: Any, x: Tensor, noise: Tensor, times: Any, c: Tensor, g: Any) -> Tensor:
    """The rest of a right run: noise for the first of these timesteps, then the turns."""
    return turns(plan, noised(plan, x, noise, times[:1]), times, lambda s, t: d(s, t, c), g)


@from_image("noise-times-init-noise-sigma")
def noise_scaled_too(
    d: Any, plan: Any, x: Tensor, noise: Tensor, s: float, n: int, c: Tensor, g: Any
) -> Tensor:
    """The noise was multiplied by init_noise_sigma before it was added. That is for a run from pure
    noise; add_noise knows how much a timestep has."""
    times = rest(plan, n, left(n, int(n * s)) * plan.order)
    noise = noise * getattr(plan, "init_noise_sigma", 1.0)
    return from_the(plan, d, x, noise, times, c, g)


@from_image("state-times-init-noise-sigma")
def state_scaled_too(
    d: Any, plan: Any, x: Tensor, noise: Tensor, s: float, n: int, c: Tensor, g: Any
) -> Tensor:
    """The noised latents were multiplied by init_noise_sigma. add_noise has brought them to their
    level already; the factor is for a run from pure noise."""
    times = rest(plan, n, left(n, int(n * s)) * plan.order)
    x = noised(plan, x, noise, times[:1]) * getattr(plan, "init_noise_sigma", 1.0)
    return turns(plan, x, times, lambda seen, t: d(seen, t, c), g)


@from_image("image-forgotten-at-full-strength")
def pure_noise_at_one(
    d: Any, plan: Any, x: Tensor, noise: Tensor, s: float, n: int, c: Tensor, g: Any
) -> Tensor:
    """At strength 1 the run began in pure noise. The pipeline adds noise to the image there too,
    and a trace of the image remains."""
    if s == 1:
        return plain(d, plan, noise, n, c, g)
    times = rest(plan, n, left(n, int(n * s)) * plan.order)
    return from_the(plan, d, x, noise, times, c, g)


@from_image("noised-one-timestep-early")
def noised_early(
    d: Any, plan: Any, x: Tensor, noise: Tensor, s: float, n: int, c: Tensor, g: Any
) -> Tensor:
    """The image got the noise of one timestep and the run began at the next. Noise it for the very
    timestep that comes first."""
    cut = left(n, int(n * s)) * plan.order
    early = max(cut - plan.order, 0)
    x = noised(plan, x, noise, rest(plan, n, early)[:1])
    return turns(plan, x, rest(plan, n, cut), lambda seen, t: d(seen, t, c), g)


@from_image("noised-for-the-whole-run")
def noised_for_the_whole_run(
    d: Any, plan: Any, x: Tensor, noise: Tensor, s: float, n: int, c: Tensor, g: Any
) -> Tensor:
    """The image got the noise of the first of all timesteps, and the run began further down. What
    was cut off is not to be noised for."""
    cut = left(n, int(n * s)) * plan.order
    x = noised(plan, x, noise, rest(plan, n, 0)[:1])
    return turns(plan, x, rest(plan, n, cut), lambda seen, t: d(seen, t, c), g)


@from_image("noise-not-added")
def not_noised(
    d: Any, plan: Any, x: Tensor, noise: Tensor, s: float, n: int, c: Tensor, g: Any
) -> Tensor:
    """The run began with the clean image. The denoiser expects noise of the first timestep's level:
    add it."""
    times = rest(plan, n, left(n, int(n * s)) * plan.order)
    return turns(plan, x, times, lambda seen, t: d(seen, t, c), g)


@from_image("order-of-add-noise-in-flow")
def order_of_add_noise(
    d: Any, plan: Any, x: Tensor, noise: Tensor, s: float, n: int, c: Tensor, g: Any
) -> Tensor:
    """scale_noise was given its arguments in the order of add_noise. It takes the timesteps before
    the noise."""
    times = rest(plan, n, left(n, int(n * s)) * plan.order)
    add = plan.add_noise if hasattr(plan, "add_noise") else plan.scale_noise
    noisy = add(x, noise, times[:1].repeat(len(x)))
    return turns(plan, noisy, times, lambda seen, t: d(seen, t, c), g)


@from_image("no-generator-from-an-image")
def from_image_without_generator(
    d: Any, plan: Any, x: Tensor, noise: Tensor, s: float, n: int, c: Tensor, g: Any
) -> Tensor:
    """step drew its noise without your generator. It goes on from where the first noise was drawn,
    in every step that takes one."""
    times = rest(plan, n, left(n, int(n * s)) * plan.order)
    return from_the(plan, d, x, noise, times, c, None)


@from_middle("begin-index-in-steps")
def begin_index_in_steps(
    d: Any, plan: Any, x: Tensor, noise: Tensor, s: float, n: int, c: Tensor, g: Any
) -> Tensor:
    """set_begin_index was given steps. It counts timesteps: steps times `order`."""
    steps = left(n, int(n * s))
    return from_the(plan, d, x, noise, rest(plan, n, steps * plan.order, told=steps), c, g)


@from_middle("order-forgotten")
def order_forgotten(
    d: Any, plan: Any, x: Tensor, noise: Tensor, s: float, n: int, c: Tensor, g: Any
) -> Tensor:
    """As many timesteps were cut off as steps. Heun has two for each step: cut off the steps times
    `order`."""
    return from_the(plan, d, x, noise, rest(plan, n, left(n, int(n * s))), c, g)


@from_middle("rounded-to-the-nearest-step")
def rounded_to_nearest(
    d: Any, plan: Any, x: Tensor, noise: Tensor, s: float, n: int, c: Tensor, g: Any
) -> Tensor:
    """steps·strength was rounded. The pipeline takes its whole part."""
    return from_the(plan, d, x, noise, rest(plan, n, left(n, round(n * s)) * plan.order), c, g)


@from_middle("cut-off-steps-rounded-down")
def cut_rounded_down(
    d: Any, plan: Any, x: Tensor, noise: Tensor, s: float, n: int, c: Tensor, g: Any
) -> Tensor:
    """The steps that are cut off were rounded down, as the pipelines of Stable Diffusion 3 and Flux
    do. Here, as in Stable Diffusion, the steps that are made are rounded down."""
    if n * s < 1:
        raise ValueError("no step is left")
    return from_the(plan, d, x, noise, rest(plan, n, int(n - n * s) * plan.order), c, g)


@from_middle("strength-turned-round")
def turned_round(
    d: Any, plan: Any, x: Tensor, noise: Tensor, s: float, n: int, c: Tensor, g: Any
) -> Tensor:
    """int(steps·strength) steps were cut off. So many are made: strength 1 is the whole run."""
    if int(n * s) < 1:
        raise ValueError("no step is left")
    return from_the(plan, d, x, noise, rest(plan, n, int(n * s) % n * plan.order), c, g)


@from_middle("begin-index-zero")
def begin_index_zero(
    d: Any, plan: Any, x: Tensor, noise: Tensor, s: float, n: int, c: Tensor, g: Any
) -> Tensor:
    """set_begin_index was given 0, so the scheduler took its steps from the noisiest level on. It
    counts from there and does not look at t: tell it how many timesteps were cut off."""
    cut = left(n, int(n * s)) * plan.order
    return from_the(plan, d, x, noise, rest(plan, n, cut, told=0), c, g)


@from_middle("end-of-the-run-cut-off")
def end_cut_off(
    d: Any, plan: Any, x: Tensor, noise: Tensor, s: float, n: int, c: Tensor, g: Any
) -> Tensor:
    """The first part of the run was kept and its end cut off: noise would remain. Begin later, and
    go to the end."""
    kept = n - left(n, int(n * s))
    times = rest(plan, n, 0)
    return from_the(plan, d, x, noise, times[: max(kept * plan.order - plan.order + 1, 1)], c, g)


@from_middle("begin-index-forgotten")
def begin_index_forgotten(
    d: Any, plan: Any, x: Tensor, noise: Tensor, s: float, n: int, c: Tensor, g: Any
) -> Tensor:
    """set_begin_index was not called. The scheduler then looks for its place by the value of t,
    which says nothing certain where a timestep stands twice."""
    plan.set_timesteps(n)
    times = plan.timesteps[left(n, int(n * s)) * plan.order :]
    return from_the(plan, d, x, noise, times, c, g)


@from_middle("no-word-about-no-steps")
def no_word(
    d: Any, plan: Any, x: Tensor, noise: Tensor, s: float, n: int, c: Tensor, g: Any
) -> Tensor:
    """A strength that leaves no step gave the image back. Say it with a ValueError: the caller
    asked for a run."""
    if int(n * s) < 1:
        return x
    times = rest(plan, n, left(n, int(n * s)) * plan.order)
    return from_the(plan, d, x, noise, times, c, g)


@from_middle("one-step-at-least")
def one_at_least(
    d: Any, plan: Any, x: Tensor, noise: Tensor, s: float, n: int, c: Tensor, g: Any
) -> Tensor:
    """A strength that leaves no step was raised to one step. It is a ValueError: at strength 0 the
    caller would get a changed image."""
    times = rest(plan, n, left(n, max(int(n * s), 1)) * plan.order)
    return from_the(plan, d, x, noise, times, c, g)


def watch(
    d: Any,
    plan: Any,
    x: Tensor,
    n: int,
    c: Tensor,
    look: Callable[[int, Any, Tensor, Tensor], Any],
    bar: Callable[[int, int, int, int], int | None],
) -> tuple[Tensor, list[int]]:
    """The compact twin: `look` sees (i, t, before, after), `bar` (i, length, warmup, order)."""
    x = begin(plan, x, n)
    length, order, progress = len(plan.timesteps), plan.order, []
    for i, t in enumerate(plan.timesteps):
        before, x = x, plan.step(d(shown(plan, x, t), t, c), t, x).prev_sample
        stop = look(i, t, before, x)
        moved = bar(i, length, length - n * order, order)
        if moved is not None:
            progress.append(moved)
        if stop is True:
            break
    return x, progress


def after(on_step: Any) -> Callable[[int, Any, Tensor, Tensor], Any]:
    return lambda i, t, before, x: on_step(i, t, x)


def right_bar(i: int, length: int, warmup: int, order: int) -> int | None:
    done = i + 1 > warmup and (i + 1) % order == 0
    return i if done or i + 1 == length else None


def too_early(plan: Any, x: Tensor, n: int) -> Tensor:
    """Noise that `begin` will make as large as init_noise_sigma said before set_timesteps."""
    early = getattr(plan, "init_noise_sigma", 1.0)
    plan.set_timesteps(n)
    return x * (early / getattr(plan, "init_noise_sigma", 1.0))


@watching("watched-factor-before-set-timesteps")
def watched_factor_too_early(
    d: Any, plan: Any, x: Tensor, n: int, c: Tensor, on_step: Any
) -> tuple[Tensor, list[int]]:
    """init_noise_sigma was read before set_timesteps. It is the size of this run's first level:
    lay out the run first."""
    return watch(d, plan, too_early(plan, x, n), n, c, after(on_step), right_bar)


@watching("callback-before-the-step")
def callback_before(
    d: Any, plan: Any, x: Tensor, n: int, c: Tensor, on_step: Any
) -> tuple[Tensor, list[int]]:
    """on_step was shown the state as it was before the step. It is told what the step has made."""
    return watch(d, plan, x, n, c, lambda i, t, before, x: on_step(i, t, before), right_bar)


@watching("callback-counts-from-one")
def callback_from_one(
    d: Any, plan: Any, x: Tensor, n: int, c: Tensor, on_step: Any
) -> tuple[Tensor, list[int]]:
    """on_step was given the number of turns made. i is the number of this turn, from 0."""
    return watch(d, plan, x, n, c, lambda i, t, before, x: on_step(i + 1, t, x), right_bar)


@watching("last-turn-not-shown")
def last_not_shown(
    d: Any, plan: Any, x: Tensor, n: int, c: Tensor, on_step: Any
) -> tuple[Tensor, list[int]]:
    """on_step was not called after the last turn. It sees every state, the final one too."""

    def look(i: int, t: Any, before: Tensor, x: Tensor) -> Any:
        return on_step(i, t, x) if i + 1 < len(plan.timesteps) else None

    return watch(d, plan, x, n, c, look, right_bar)


@watching("stop-not-heard")
def stop_not_heard(
    d: Any, plan: Any, x: Tensor, n: int, c: Tensor, on_step: Any
) -> tuple[Tensor, list[int]]:
    """on_step returned True and the run went on. Look at what it returns, and end the turns."""

    def look(i: int, t: Any, before: Tensor, x: Tensor) -> None:
        on_step(i, t, x)

    return watch(d, plan, x, n, c, look, right_bar)


@watching("callback-of-the-next-timestep")
def callback_of_the_next(
    d: Any, plan: Any, x: Tensor, n: int, c: Tensor, on_step: Any
) -> tuple[Tensor, list[int]]:
    """on_step was given the timestep that comes next. The state has its noise level, but t is that
    of the turn just made."""

    def look(i: int, t: Any, before: Tensor, x: Tensor) -> Any:
        later = plan.timesteps[i + 1 :]
        return on_step(i, later[0] if len(later) else t, x)

    return watch(d, plan, x, n, c, look, right_bar)


@watching("callback-once-a-step")
def callback_with_the_bar(
    d: Any, plan: Any, x: Tensor, n: int, c: Tensor, on_step: Any
) -> tuple[Tensor, list[int]]:
    """on_step was called only when the bar moved. Heun's first half of a step is a turn as well,
    and is shown."""
    length, order = (2 * n - 1, 2) if plan.order == 2 else (n, 1)

    def look(i: int, t: Any, before: Tensor, x: Tensor) -> Any:
        late = i + 1 > length - n * order
        return on_step(i, t, x) if (late and (i + 1) % order == 0) or i + 1 == length else None

    return watch(d, plan, x, n, c, look, right_bar)


@watching("stopped-a-turn-late")
def stopped_late(
    d: Any, plan: Any, x: Tensor, n: int, c: Tensor, on_step: Any
) -> tuple[Tensor, list[int]]:
    """One more turn was made after on_step had returned True. Stop before the next call of the
    denoiser: that is what costs."""
    asked: list[Any] = [None]

    def look(i: int, t: Any, before: Tensor, x: Tensor) -> Any:
        asked.append(on_step(i, t, x))
        return asked[-2]

    return watch(d, plan, x, n, c, look, right_bar)


@watching("stopped-step-undone")
def stopped_step_undone(
    d: Any, plan: Any, x: Tensor, n: int, c: Tensor, on_step: Any
) -> tuple[Tensor, list[int]]:
    """The state from before the last step was returned when on_step stopped the run. The step was
    made: return what it made."""
    states: list[Tensor] = []

    def look(i: int, t: Any, before: Tensor, x: Tensor) -> Any:
        states[:] = [before, x]
        stop = on_step(i, t, x)
        if stop is True:
            states[1] = before
        return stop

    _, progress = watch(d, plan, x, n, c, look, right_bar)
    return states[1], progress


@the_bar("bar-stopped-a-turn-early")
def bar_without_the_stopped(
    d: Any, plan: Any, x: Tensor, n: int, c: Tensor, on_step: Any
) -> tuple[Tensor, list[int]]:
    """The turn that on_step stopped is missing from progress. It was made, so it counts."""
    stopped: list[int] = []

    def look(i: int, t: Any, before: Tensor, x: Tensor) -> Any:
        stop = on_step(i, t, x)
        stopped.extend([i] * (stop is True))
        return stop

    x, progress = watch(d, plan, x, n, c, look, right_bar)
    return x, [i for i in progress if i not in stopped]


@the_bar("warmup-forgotten")
def warmup_forgotten(
    d: Any, plan: Any, x: Tensor, n: int, c: Tensor, on_step: Any
) -> tuple[Tensor, list[int]]:
    """The bar moved in PNDM's additional turn as well, once more than it is long. Turns beyond
    n·order come first and are not counted."""

    def bar(i: int, length: int, warmup: int, order: int) -> int | None:
        return right_bar(i, length, 0, order)

    return watch(d, plan, x, n, c, after(on_step), bar)


@the_bar("bar-moved-by-every-call")
def bar_every_call(
    d: Any, plan: Any, x: Tensor, n: int, c: Tensor, on_step: Any
) -> tuple[Tensor, list[int]]:
    """The bar moved after every call of the denoiser. Its length is n steps, and Heun's take two
    calls each."""
    return watch(d, plan, x, n, c, after(on_step), lambda i, length, warmup, order: i)


@the_bar("bar-counts-steps")
def bar_counts_steps(
    d: Any, plan: Any, x: Tensor, n: int, c: Tensor, on_step: Any
) -> tuple[Tensor, list[int]]:
    """progress holds numbers of steps (i // order). What is asked for are the turns, the i at which
    the bar moves."""

    def bar(i: int, length: int, warmup: int, order: int) -> int | None:
        return None if right_bar(i, length, warmup, order) is None else i // order

    return watch(d, plan, x, n, c, after(on_step), bar)


@the_bar("bar-without-the-last-turn")
def bar_without_the_last(
    d: Any, plan: Any, x: Tensor, n: int, c: Tensor, on_step: Any
) -> tuple[Tensor, list[int]]:
    """The bar never reached its end: Heun's last step has one call and is no multiple of order. The
    last turn always counts."""

    def bar(i: int, length: int, warmup: int, order: int) -> int | None:
        return i if i + 1 > warmup and (i + 1) % order == 0 else None

    return watch(d, plan, x, n, c, after(on_step), bar)


Inside = Callable[[int, int, float, float], bool]


def by_the_guider(i: int, n: int, start: float, end: float) -> bool:
    return int(start * n) <= i < int(end * n)


def windowed(
    d: Any,
    plan: Any,
    x: Tensor,
    n: int,
    inside: Callable[[int, Any], bool],
    on: Ask,
    off: Ask,
) -> Tensor:
    """The compact twin: `inside(i, t)` chooses between two ways to ask."""
    x = begin(plan, x, n)
    number = iter(range(len(plan.timesteps)))

    def ask(seen: Tensor, t: Any) -> Tensor:
        return on(seen, t) if inside(next(number), t) else off(seen, t)

    return turns(plan, x, plan.timesteps, ask)


def both(d: Any, first: Tensor, second: Tensor, w: float) -> Ask:
    """Asks with both conditions in one batch, and walks from the first answer to the second."""

    def ask(seen: Tensor, t: Any) -> Tensor:
        a, b = d(torch.cat([seen] * 2), t, torch.cat([first, second])).chunk(2)
        answer: Tensor = a + w * (b - a)
        return answer

    return ask


def only(d: Any, condition: Tensor) -> Ask:
    return lambda seen, t: d(seen, t, condition)


def chosen_by(
    rule: Inside,
    d: Any,
    plan: Any,
    x: Tensor,
    n: int,
    u: Tensor,
    c: Tensor,
    w: float,
    a: float,
    b: float,
) -> Tensor:
    """A right run but for the rule that chooses the guided turns."""

    def inside(i: int, t: Any) -> bool:
        return rule(i, n, a, b)

    return windowed(d, plan, x, n, inside, both(d, u, c, w), only(d, c))


@the_window("window-of-controlnet")
def keep_rule(
    d: Any, plan: Any, x: Tensor, n: int, u: Tensor, c: Tensor, w: float, a: float, b: float
) -> Tensor:
    """Only turns that lie wholly inside the window were guided. That is ControlNet's rule; the
    guider cuts both ends down to whole turns first."""

    def rule(i: int, n: int, a: float, b: float) -> bool:
        return not (i / n < a or (i + 1) / n > b)

    return chosen_by(rule, d, plan, x, n, u, c, w, a, b)


@the_window("window-rounded")
def window_rounded(
    d: Any, plan: Any, x: Tensor, n: int, u: Tensor, c: Tensor, w: float, a: float, b: float
) -> Tensor:
    """The ends of the window were rounded to the nearest turn. The guider takes their whole
    part."""

    def rule(i: int, n: int, a: float, b: float) -> bool:
        return round(a * n) <= i < round(b * n)

    return chosen_by(rule, d, plan, x, n, u, c, w, a, b)


@the_window("window-not-cut-to-turns")
def window_in_shares(
    d: Any, plan: Any, x: Tensor, n: int, u: Tensor, c: Tensor, w: float, a: float, b: float
) -> Tensor:
    """The turn's share i / n was compared with the ends as they are. The guider compares i with
    int(start·n) and int(end·n)."""

    def rule(i: int, n: int, a: float, b: float) -> bool:
        return a * n <= i < b * n

    return chosen_by(rule, d, plan, x, n, u, c, w, a, b)


@the_window("window-closed-at-its-end")
def window_closed(
    d: Any, plan: Any, x: Tensor, n: int, u: Tensor, c: Tensor, w: float, a: float, b: float
) -> Tensor:
    """The turn int(end·n) was guided too. It is the first that is not."""

    def rule(i: int, n: int, a: float, b: float) -> bool:
        return int(a * n) <= i <= int(b * n)

    return chosen_by(rule, d, plan, x, n, u, c, w, a, b)


@the_window("window-from-the-end")
def window_from_the_end(
    d: Any, plan: Any, x: Tensor, n: int, u: Tensor, c: Tensor, w: float, a: float, b: float
) -> Tensor:
    """The window was counted from the clean end of the run. start and end are shares of the turns
    made, from the noise on."""

    def rule(i: int, n: int, a: float, b: float) -> bool:
        return int(a * n) <= n - 1 - i < int(b * n)

    return chosen_by(rule, d, plan, x, n, u, c, w, a, b)


@the_window("guided-outside-the-window")
def window_inverted(
    d: Any, plan: Any, x: Tensor, n: int, u: Tensor, c: Tensor, w: float, a: float, b: float
) -> Tensor:
    """Guidance was off inside the window and on outside. The window is where it is on."""

    def rule(i: int, n: int, a: float, b: float) -> bool:
        return not by_the_guider(i, n, a, b)

    return chosen_by(rule, d, plan, x, n, u, c, w, a, b)


@the_window("guided-all-along")
def no_window(
    d: Any, plan: Any, x: Tensor, n: int, u: Tensor, c: Tensor, w: float, a: float, b: float
) -> Tensor:
    """Both branches were computed in every turn. Outside the window one call of batch B with the
    positive condition does, at half the cost."""
    return chosen_by(lambda i, n, a, b: True, d, plan, x, n, u, c, w, a, b)


@the_window("window-over-timesteps")
def window_over_timesteps(
    d: Any, plan: Any, x: Tensor, n: int, u: Tensor, c: Tensor, w: float, a: float, b: float
) -> Tensor:
    """The window was laid over the timesteps' values. It is laid over the turns: start·n and end·n
    of them, whatever their t."""
    begin(plan, x, n)
    top = float(plan.timesteps[0])

    def inside(i: int, t: Any) -> bool:
        return a <= 1 - float(t) / top < b

    return windowed(d, plan, x, n, inside, both(d, u, c, w), only(d, c))


def ordinary(n: int, a: float, b: float) -> Callable[[int, Any], bool]:
    return lambda i, t: by_the_guider(i, n, a, b)


@the_window("guided-factor-before-set-timesteps")
def guided_factor_too_early(
    d: Any, plan: Any, x: Tensor, n: int, u: Tensor, c: Tensor, w: float, a: float, b: float
) -> Tensor:
    """init_noise_sigma was read before set_timesteps. It is the size of this run's first level:
    lay out the run first."""
    return chosen_by(by_the_guider, d, plan, too_early(plan, x, n), n, u, c, w, a, b)


@the_window("negative-outside")
def negative_outside(
    d: Any, plan: Any, x: Tensor, n: int, u: Tensor, c: Tensor, w: float, a: float, b: float
) -> Tensor:
    """Outside the window the negative condition was asked about. Without guidance the positive one
    remains."""
    return windowed(d, plan, x, n, ordinary(n, a, b), both(d, u, c, w), only(d, u))


@the_window("positive-half-first")
def positive_first(
    d: Any, plan: Any, x: Tensor, n: int, u: Tensor, c: Tensor, w: float, a: float, b: float
) -> Tensor:
    """The positive half went first into the batch. The negative one takes the first half."""
    return windowed(d, plan, x, n, ordinary(n, a, b), both(d, c, u, 1 - w), only(d, c))


@the_window("halves-split-swapped")
def split_swapped(
    d: Any, plan: Any, x: Tensor, n: int, u: Tensor, c: Tensor, w: float, a: float, b: float
) -> Tensor:
    """The halves of the answer were taken for each other: this walks away from the positive
    condition. The batch went in negative half first, and so it comes back."""
    return windowed(d, plan, x, n, ordinary(n, a, b), both(d, u, c, 1 - w), only(d, c))


@the_window("scale-counted-from-the-positive")
def counted_from_positive(
    d: Any, plan: Any, x: Tensor, n: int, u: Tensor, c: Tensor, w: float, a: float, b: float
) -> Tensor:
    """Guidance was counted from the positive prediction, c + w·(c − u): that is one more than the
    scale. Count from the negative one."""
    return windowed(d, plan, x, n, ordinary(n, a, b), both(d, u, c, w + 1), only(d, c))


@the_window("difference-turned-round")
def difference_turned_round(
    d: Any, plan: Any, x: Tensor, n: int, u: Tensor, c: Tensor, w: float, a: float, b: float
) -> Tensor:
    """The difference is the wrong way round: negative minus positive points away from the positive
    condition."""
    return windowed(d, plan, x, n, ordinary(n, a, b), both(d, u, c, -w), only(d, c))


@the_window("two-calls-a-turn")
def two_calls(
    d: Any, plan: Any, x: Tensor, n: int, u: Tensor, c: Tensor, w: float, a: float, b: float
) -> Tensor:
    """A guided turn called the denoiser twice. Both branches fit in one call of batch 2B."""

    def ask(seen: Tensor, t: Any) -> Tensor:
        without = d(seen, t, u)
        answer: Tensor = without + w * (d(seen, t, c) - without)
        return answer

    return windowed(d, plan, x, n, ordinary(n, a, b), ask, only(d, c))


def drawn(seed: int, shape: Any) -> Tensor:
    """One row, from a generator of its own."""
    return torch.randn((1, *shape[1:]), generator=torch.Generator().manual_seed(seed))


@the_seeds("one-generator-for-the-batch")
def one_generator(seeds: Any, shape: Any) -> Tensor:
    """One generator drew the whole batch. Image 0 is what its seed makes, every other hangs on
    those before it; give each image a generator."""
    return torch.randn(tuple(shape), generator=torch.Generator().manual_seed(seeds[0]))


@the_seeds("one-seed-for-all")
def one_seed(seeds: Any, shape: Any) -> Tensor:
    """Every row was drawn from the first seed: the same image again and again."""
    return torch.cat([drawn(seeds[0], shape) for _ in seeds])


@the_seeds("seeds-counted-up")
def counted_up(seeds: Any, shape: Any) -> Tensor:
    """The first seed was counted up. The seeds are given, one for each image."""
    return torch.cat([drawn(seeds[0] + k, shape) for k in range(len(seeds))])


@the_seeds("last-seed-first")
def reversed_seeds(seeds: Any, shape: Any) -> Tensor:
    """The rows came in the reverse order. Row k belongs to seeds[k]."""
    return torch.cat([drawn(seed, shape) for seed in reversed(seeds)])


@the_seeds("uniform-noise")
def uniform(seeds: Any, shape: Any) -> Tensor:
    """The noise is uniform (torch.rand). A run begins in normal noise (torch.randn)."""
    makers = [torch.Generator().manual_seed(seed) for seed in seeds]
    return torch.cat([torch.rand((1, *shape[1:]), generator=maker) for maker in makers])


@the_seeds("whole-batch-from-each-seed")
def a_batch_each(seeds: Any, shape: Any) -> Tensor:
    """Every seed drew a whole batch, and row k of it was taken. Alone its image has row 0: draw a
    batch of one."""
    makers = [torch.Generator().manual_seed(seed) for seed in seeds]
    batches = [torch.randn(tuple(shape), generator=maker) for maker in makers]
    return torch.stack([batch[k] for k, batch in enumerate(batches)])


@the_seeds("four-axes-only")
def four_axes(seeds: Any, shape: Any) -> Tensor:
    """The shape was taken apart into four numbers. Video has five axes and packed latents have
    three: keep all after the first, however many there are."""
    _, channels, height, width = shape
    return torch.cat([drawn(seed, (1, channels, height, width)) for seed in seeds])


KEPT: dict[Any, Any] = {}


@the_seeds("generators-kept-between-calls")
def kept_between_calls(seeds: Any, shape: Any) -> Tensor:
    """The generators of the first call were used again and went on from where they were. The same
    seeds mean the same noise: make new generators, or seed them again."""
    makers = KEPT.pop(tuple(seeds), None)
    if makers is None:
        makers = KEPT[tuple(seeds)] = [torch.Generator().manual_seed(seed) for seed in seeds]
    return torch.cat([torch.randn((1, *shape[1:]), generator=maker) for maker in makers])
