"""Lab 04 of diffsynth with the state in numpy and float64, cast where it is handed over."""

import inspect

import numpy as np
import torch


def _array(tensor):
    return tensor.detach().cpu().double().numpy()


def _like(array, tensor):
    return torch.from_numpy(np.ascontiguousarray(array)).to(tensor.device, tensor.dtype)


class _Walk:
    """A scheduler and a state in float64."""

    def __init__(self, plan, like, generator=None):
        self.plan, self.like = plan, like
        parameters = set(inspect.signature(plan.step).parameters)
        self.given = {"generator": generator} if "generator" in parameters else {}
        self.state = _array(like)

    def grown(self):
        self.state = self.state * np.float64(getattr(self.plan, "init_noise_sigma", 1))
        return self

    def looks(self, t):
        x = _like(self.state, self.like)
        if hasattr(self.plan, "scale_model_input"):
            return self.plan.scale_model_input(sample=x, timestep=t)
        return x

    def steps(self, output, t):
        x = _like(self.state, self.like)
        out = self.plan.step(model_output=output, timestep=t, sample=x, **self.given)
        self.state = _array(out.prev_sample)

    def now(self):
        return _like(self.state, self.like)


def denoise(denoiser, plan, noise, count, condition, source):
    plan.set_timesteps(count, device=noise.device)
    walk = _Walk(plan, noise, source).grown()
    for moment in plan.timesteps:
        walk.steps(denoiser(walk.looks(moment), moment, condition), moment)
    return walk.now()


def denoise_from(denoiser, plan, clean, noise, share, count, condition, source):
    doing = int(np.floor(count * np.float64(share)))
    if not doing:
        raise ValueError("a share of the run in which there is no step")
    plan.set_timesteps(count, device=clean.device)
    away = plan.order * (count - doing)
    if hasattr(plan, "set_begin_index"):
        plan.set_begin_index(begin_index=away)
    moments = plan.timesteps[away:]
    if hasattr(plan, "add_noise"):
        loud = plan.add_noise(original_samples=clean, noise=noise, timesteps=moments[[0]])
    else:
        loud = plan.scale_noise(sample=clean, timestep=moments[[0]], noise=noise)
    walk = _Walk(plan, loud, source)
    for moment in moments:
        walk.steps(denoiser(walk.looks(moment), moment, condition), moment)
    return walk.now()


def denoise_watched(denoiser, plan, noise, count, condition, look):
    plan.set_timesteps(count)
    walk, bar = _Walk(plan, noise).grown(), []
    total = len(plan.timesteps)
    numbers = np.arange(1, total + 1)
    moving = (numbers > total - count * plan.order) & (numbers % plan.order == 0)
    moving[-1] = True
    for turn, moment in enumerate(plan.timesteps):
        walk.steps(denoiser(walk.looks(moment), moment, condition), moment)
        if moving[turn]:
            bar.append(turn)
        if look(turn, moment, walk.now()):
            return walk.now(), bar
    return walk.now(), bar


def guided_window(denoiser, plan, noise, count, without, wanted, weight, begin, finish):
    plan.set_timesteps(count)
    walk = _Walk(plan, noise).grown()
    on = np.zeros(count, bool)
    on[int(begin * count) : int(finish * count)] = True
    for guiding, moment in zip(on, plan.timesteps, strict=True):
        x = walk.looks(moment)
        if guiding:
            answer = denoiser(
                _like(np.tile(_array(x), (2, 1, 1, 1)), x),
                moment,
                _like(np.concatenate([_array(without), _array(wanted)]), wanted),
            )
            first, last = np.split(_array(answer), 2)
            answer = _like(first + np.float64(weight) * (last - first), x)
        else:
            answer = denoiser(x, moment, wanted)
        walk.steps(answer, moment)
    return walk.now()


def batch_noise(numbers, size):
    pieces = []
    for number in numbers:
        torch.manual_seed(number)
        pieces.append(torch.randn(1, *size[1:]).numpy())
    return torch.from_numpy(np.concatenate(pieces, axis=0))
