"""Lab 09 in torch by other routes: indices, matrices and views that are not contiguous."""

import torch


def control_image(raw, number_of_latents, cfg):
    raw = torch.as_tensor(raw)
    if raw.ndim == 3:
        raw = raw.unsqueeze(0)
    n = raw.size(0)
    if (number_of_latents // n) * n != number_of_latents:
        raise ValueError(f"{number_of_latents} is not a multiple of {n}")
    order = torch.arange(number_of_latents) * n // number_of_latents
    if cfg:
        order = torch.cat((order, order))
    return raw.to(torch.float64).mul(1 / 255)[order].float().permute(0, 3, 1, 2)


def _linear(f, w, b, s):
    flat = f.movedim(1, -1) @ (s * w[:, :, 0, 0]).T
    return (flat + s * b).movedim(-1, 1)


def zero_conv_residuals(fs, ps, s):
    mid = _linear(fs[-1], *ps[-1], s)
    down = [_linear(fs[i], ps[i][0], ps[i][1], s) for i in reversed(range(len(fs) - 1))]
    return down[::-1], mid


def add_residuals(kept, x, core, extra, extra_mid):
    if (extra is None) is not (extra_mid is None):
        raise ValueError("residuals for skips and middle belong together")
    extra = [torch.zeros_like(k) for k in kept] if extra is None else extra
    if len(extra) - len(kept):
        raise ValueError("a residual for every skip, please")
    out = core(x)
    out = out if extra_mid is None else torch.stack([out, extra_mid]).sum(dim=0)
    return list(map(torch.add, kept, extra)), out


def controlnet_keep(n, a, b):
    keeps = [1.0] * n
    for i in range(n):
        if not i / n >= a:
            keeps[i] = 0.0
        if not (i + 1) / n <= b:
            keeps[i] *= 0.0
    return tuple(keeps)


def guess_mode_scales(n):
    ratio = torch.full((n,), 10.0, dtype=torch.float64).pow(1 / n)
    return torch.cat([torch.tensor([0.1], dtype=torch.float64), 0.1 * ratio.cumprod(0)]).float()


def guess_mode_residuals(rs):
    return [torch.nn.functional.pad(r, (0, 0) * (r.ndim - 1) + (len(r), 0)) for r in rs]


def multi_control(answers, cs):
    if len(answers) > len(cs) or len(cs) > len(answers):
        raise ValueError("scales and ControlNets do not pair up")
    (down, mid), c = answers[-1], cs[-1]
    if len(answers) == 1:
        return [c * d for d in down], c * mid
    others, other_mid = multi_control(answers[:-1], cs[:-1])
    return [
        torch.add(o, d, alpha=c) for o, d in zip(others, down, strict=True)
    ], c * mid + other_mid


def controlled_prediction(denoiser, side, z, when, words, hint, c, guess):
    uncond_words, cond_words = words.tensor_split(2)
    _, cond_z = z.tensor_split(2)
    if guess:
        answer = side(cond_z, when, cond_words, hint, guess_mode=guess, conditioning_scale=c)
    else:
        answer = side(z, when, words, conditioning_scale=c, controlnet_cond=hint)
    residuals = [*answer[0], answer[1]]
    if guess:
        residuals = guess_mode_residuals(residuals)
    named = {
        "mid_block_additional_residual": residuals.pop(),
        "down_block_additional_residuals": tuple(residuals),
    }
    return denoiser(z, when, torch.cat([uncond_words, cond_words]), **named)
