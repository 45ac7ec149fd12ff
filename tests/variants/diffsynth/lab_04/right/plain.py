"""Lab 04 of diffsynth in plain Python: numbers in nested lists, turns counted by hand."""

import contextlib
import math

import torch


def _walk(value, change):
    if isinstance(value, list):
        return [_walk(item, change) for item in value]
    return change(value)


def _times(tensor, factor):
    changed = _walk(tensor.tolist(), lambda number: number * factor)
    return torch.tensor(changed, dtype=tensor.dtype, device=tensor.device)


def _beginning(scheduler, latents, steps):
    scheduler.set_timesteps(num_inference_steps=steps)
    try:
        factor = float(scheduler.init_noise_sigma)
    except AttributeError:
        return latents
    return _times(latents, factor)


def _seen(scheduler, state, moment):
    try:
        scaling = scheduler.scale_model_input
    except AttributeError:
        return state
    return scaling(state, moment)


def _stepped(scheduler, prediction, moment, state, generator):
    try:
        return scheduler.step(prediction, moment, state, generator=generator)[0]
    except TypeError:
        return scheduler.step(prediction, moment, state)[0]


def denoise(network, scheduler, latents, steps, condition, generator):
    state = _beginning(scheduler, latents, steps)
    moments = scheduler.timesteps.tolist()
    turn = 0
    while turn < len(moments):
        prediction = network(_seen(scheduler, state, moments[turn]), moments[turn], condition)
        state = _stepped(scheduler, prediction, moments[turn], state, generator)
        turn += 1
    return state


def denoise_from(network, scheduler, image, noise, strength, steps, condition, generator):
    made = math.floor(steps * strength)
    if made == 0:
        raise ValueError("nothing is left to do")
    scheduler.set_timesteps(num_inference_steps=steps)
    skipped = steps * scheduler.order - made * scheduler.order
    moments = [moment for turn, moment in enumerate(scheduler.timesteps) if turn >= skipped]
    with contextlib.suppress(AttributeError):
        scheduler.set_begin_index(skipped)
    if hasattr(scheduler, "scale_noise"):
        state = scheduler.scale_noise(image, torch.stack(moments)[:1], noise)
    else:
        state = scheduler.add_noise(image, noise, torch.stack(moments[:1] * image.shape[0]))
    for moment in moments:
        prediction = network(_seen(scheduler, state, moment), moment, condition)
        state = _stepped(scheduler, prediction, moment, state, generator)
    return state


def denoise_watched(network, scheduler, latents, steps, condition, on_step):
    state = _beginning(scheduler, latents, steps)
    moments = list(scheduler.timesteps)
    calls = len(moments)
    spare = max(calls - steps * scheduler.order, 0)
    moved, turn = (), 0
    while turn < calls:
        moment = moments[turn]
        prediction = network(_seen(scheduler, state, moment), moment, condition)
        state = scheduler.step(prediction, moment, state)["prev_sample"]
        wanted = on_step(turn, moment, state)
        counted = turn >= spare and turn % scheduler.order == scheduler.order - 1
        moved += (turn,) if counted or turn == calls - 1 else ()
        turn = calls if wanted else turn + 1
    return [state, moved]


def guided_window(network, scheduler, latents, steps, negative, positive, scale, start, end):
    state = _beginning(scheduler, latents, steps)
    guided_turns = set(range(math.trunc(start * steps), math.trunc(end * steps)))
    for turn, moment in enumerate(scheduler.timesteps.tolist()):
        seen = _seen(scheduler, state, moment)
        if turn not in guided_turns:
            prediction = network(seen, moment, positive)
        else:
            rows = torch.tensor(seen.tolist() + seen.tolist(), device=seen.device)
            texts = torch.tensor(negative.tolist() + positive.tolist(), device=seen.device)
            answers = network(rows, moment, texts)
            half = len(answers) // 2
            prediction = _times(answers[:half], 1 - scale) + _times(answers[half:], scale)
        state = scheduler.step(prediction, moment, state)["prev_sample"]
    return state


def batch_noise(seeds, shape):
    noise = torch.empty(tuple(shape))
    for row, seed in enumerate(seeds):
        own = torch.Generator()
        own.manual_seed(seed)
        noise[row] = torch.randn(tuple(shape)[1:], generator=own)
    return noise
