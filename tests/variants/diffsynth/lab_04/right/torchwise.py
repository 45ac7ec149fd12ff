"""Lab 04 of diffsynth in torch by other routes: generators, views, one core for all loops."""

import functools
import inspect
import itertools

import torch


def _turns(plan, x, moments, network, extra=None):
    """Yields (turn, moment, state after it). `network` is (turn, seen, moment) -> prediction."""
    look = getattr(plan, "scale_model_input", lambda tensor, _: tensor)
    for turn, moment in zip(itertools.count(), moments):
        (x, *_) = plan.step(
            network(turn, look(x, moment), moment), moment, x, return_dict=False, **(extra or {})
        )
        yield turn, moment, x


def _start(plan, x, n):
    plan.set_timesteps(n)
    return torch.mul(x, plan.init_noise_sigma) if hasattr(plan, "init_noise_sigma") else x


def _noise_source(plan, generator):
    names = inspect.signature(plan.step).parameters.keys()
    return dict.fromkeys({"generator"} & names, generator)


def _strided(x):
    # Another memory layout with the same numbers is the same answer.
    return x.permute(3, 1, 0, 2).contiguous().permute(2, 1, 3, 0)


def denoise(model, plan, x, n, context, rng):
    x = _start(plan, x, n)
    run = _turns(
        plan,
        x,
        plan.timesteps,
        lambda _, seen, t: model(seen, t, context),
        _noise_source(plan, rng),
    )
    *_, (_, _, last) = run
    return _strided(last)


def denoise_from(model, plan, clean, eps, amount, n, context, rng):
    first = n - int(amount * n)
    if first >= n:
        raise ValueError(amount)
    plan.set_timesteps(n)
    skipped, moments = plan.timesteps.tensor_split([first * plan.order])
    getattr(plan, "set_begin_index", lambda _: None)(len(skipped))
    level = moments[0].expand(clean.size(0))
    if hasattr(plan, "scale_noise"):
        add = functools.partial(plan.scale_noise, clean, level, eps)
    else:
        add = functools.partial(plan.add_noise, clean, eps, level)
    ask = lambda _, seen, t: model(seen, t, context)
    *_, (_, _, last) = _turns(plan, add(), moments, ask, _noise_source(plan, rng))
    return _strided(last)


def denoise_watched(model, plan, x, n, context, watcher):
    x = _start(plan, x, n)
    moments = plan.timesteps
    extra, order, bar = len(moments) - n * plan.order, plan.order, []
    for turn, moment, x in _turns(plan, x, moments, lambda _, seen, t: model(seen, t, context)):
        ended = watcher(turn, moment, x) is True
        done, inside = divmod(turn + 1, order)
        if turn + 1 == len(moments) or (inside == 0 and done * order > extra):
            bar += [turn]
        if ended:
            break
    return _strided(x), bar


def guided_window(model, plan, x, n, without, context, w, lower, upper):
    both = torch.stack((without, context)).flatten(0, 1)
    on = range(int(lower * n), int(upper * n))

    def ask(turn, seen, t):
        if turn not in on:
            return model(seen, t, context)
        answers = model(seen.expand(2, *seen.shape).flatten(0, 1), t, both)
        return torch.lerp(*answers.unflatten(0, (2, -1)).unbind(0), w)

    x = _start(plan, x, n)
    *_, (_, _, last) = _turns(plan, x, plan.timesteps, ask)
    return _strided(last)


def batch_noise(seeds, size):
    rows = (torch.randn(size[1:], generator=torch.Generator().manual_seed(s)) for s in seeds)
    return torch.stack(list(rows)).movedim(0, -1).contiguous().movedim(-1, 0)
