"""Lab 01 in plain Python: lists and floats, one sample after another, tensors only at the ends."""

import math

import torch


def betas(kind, count, first, last):
    found = []
    for i in range(count):
        part = i / (count - 1)
        if kind == "linear":
            found.append(first * (1 - part) + last * part)
        elif kind == "scaled_linear":
            found.append((first**0.5 * (1 - part) + last**0.5 * part) ** 2)
        elif kind == "squaredcos_cap_v2":
            now, then = ((j / count + 0.008) / 1.008 for j in (i, i + 1))
            lost = 1 - (math.cos(then * math.pi / 2) / math.cos(now * math.pi / 2)) ** 2
            found.append(min(lost, 0.999))
        else:
            raise ValueError(kind)
    return torch.tensor(found, dtype=torch.float32)


def _kept(losses):
    left, found = 1.0, []
    for loss in losses:
        left *= 1 - loss
        found.append(left)
    return found


def alphas_cumprod(losses):
    return torch.tensor(_kept(losses.tolist()), dtype=torch.float32, device=losses.device)


def _mixed(one, other, pairs):
    """Each sample of `one` and of `other`, weighted by its own pair of Python floats."""
    mixed = []
    for a, b, (weight, counterweight) in zip(one, other, pairs, strict=True):
        mixed.append(a.double() * weight + b.double() * counterweight)
    return torch.stack(mixed).type(one.dtype)


def _angles(where, table):
    return [(math.sqrt(a), math.sqrt(1 - a)) for a in (table.tolist()[i] for i in where.tolist())]


def add_noise(clean, noise, where, table):
    for t in where.tolist():
        if not 0 <= t < len(table):
            raise ValueError(f"{t} is not a step of this schedule")
    return _mixed(clean, noise, _angles(where, table))


def velocity(clean, noise, where, table):
    return _mixed(noise, clean, [(cos, -sin) for cos, sin in _angles(where, table)])


def snr(where, table):
    ratios = [(cos / sin) ** 2 for cos, sin in _angles(where, table)]
    return torch.tensor(ratios, dtype=torch.float32, device=where.device)


def zero_terminal_snr(losses):
    roots = [math.sqrt(left) for left in _kept(losses.tolist())]
    top, bottom = roots[0], roots[-1]
    wanted = [((r - bottom) * top / (top - bottom)) ** 2 for r in roots]
    changed, before = [], 1.0
    for left in wanted:
        changed.append(1 - left / before)
        before = left
    return torch.tensor(changed, dtype=torch.float32, device=losses.device)


def flow_noise(clean, noise, levels):
    return _mixed(clean, noise, [(1 - s, s) for s in levels.tolist()])


def training_target(clean, noise, where, table, kind):
    if kind == "v_prediction":
        return velocity(clean, noise, where, table)
    targets = {"epsilon": noise, "sample": clean}
    if kind not in targets:
        raise ValueError(f"what is {kind}?")
    return targets[kind]
