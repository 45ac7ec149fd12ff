"""Lab 01 in torch by other routes: logarithms, the batch axis last, factors rounded first."""

import torch


def betas(schedule, steps, start, end):
    if schedule == "squaredcos_cap_v2":
        t = torch.arange(steps + 1, dtype=torch.float32).div(steps).add(0.008).div(1.008)
        f = torch.cos(t.mul(torch.pi / 2)).square()
        return torch.minimum(1 - f[1:] / f[:-1], torch.tensor(0.999))
    power = {"linear": 1.0, "scaled_linear": 2.0}.get(schedule)
    if power is None:
        raise ValueError(f"schedule {schedule}")
    low, high = start ** (1 / power), end ** (1 / power)
    line = low + torch.arange(steps, dtype=torch.float64) * ((high - low) / (steps - 1))
    return line.pow(power).to(torch.float32)


def alphas_cumprod(b):
    return torch.exp(torch.log1p(-b.to(torch.float64)).cumsum(0)).to(torch.float32)


def _factors(t, table, dtype):
    """√ᾱ and √(1 − ᾱ) in float32 until they are finished, then in the samples' dtype."""
    kept = torch.gather(table, 0, t)
    return kept.pow(0.5).to(dtype), torch.rsub(kept, 1).pow(0.5).to(dtype)


def _last(sample):
    return sample.movedim(0, -1)  # with the batch last, (B,) factors broadcast by themselves


def add_noise(clean, noise, t, table):
    if t.ne(t.clamp(0, table.numel() - 1)).any().item():
        raise ValueError("no such timestep")
    cos, sin = _factors(t, table, clean.dtype)
    return torch.addcmul(_last(clean) * cos, _last(noise), sin).movedim(-1, 0)


def velocity(clean, noise, t, table):
    cos, sin = _factors(t, table, clean.dtype)
    return torch.sub(_last(noise) * cos, _last(clean) * sin).movedim(-1, 0)


def snr(t, table):
    return torch.exp(torch.logit(table.double()[t])).float()


def zero_terminal_snr(b):
    log_root = torch.log1p(-b.double()).cumsum(0) / 2
    root = log_root.exp()
    root = (root - root.amin()) / (root.amax() - root.amin()) * root.amax()
    ratio = torch.cat((root[:1], root[1:].div(root[:-1])))
    return torch.sub(1, ratio.square()).type_as(b)


def flow_noise(clean, noise, sigma):
    keep = torch.rsub(sigma, 1.0).to(clean.dtype)
    return (_last(clean) * keep + _last(noise) * sigma.to(clean.dtype)).movedim(-1, 0)


def training_target(clean, noise, t, table, kind):
    if kind == "v_prediction":
        # what is left of the noise once the sample has been turned back by a right angle
        cos, sin = _factors(t, table, torch.float64)
        return (cos * _last(noise).double() - sin * _last(clean).double()).movedim(-1, 0).to(clean)
    if kind == "epsilon":
        return noise[:]
    if kind == "sample":
        return clean.view_as(clean)
    raise ValueError(kind)
