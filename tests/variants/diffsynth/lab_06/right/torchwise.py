"""With torch's own words: movedim, einsum, kron, polar, index_add, masked steps."""

import torch
import torch.nn.functional as nn


def video_shape(config, batch, frames, height, width):
    channels, r, s, p = (config[key] for key in ("channels", "temporal", "spatial", "patch"))
    grid = torch.tensor([height, width])
    if frames < 1 or bool((grid % (p * s)).any()):
        raise ValueError(f"{frames} × {height} × {width}, sides in multiples of {p * s}")
    steps = frames // r if frames % r != 1 else (frames - 1) // r
    h, w = (grid // s).tolist()
    return {
        "latents": [batch, channels, steps + 1, h, w],
        "tokens": (steps + 1) * int((grid // (s * p)).prod()),
        "frames": steps * r + 1,
    }


def to_spatial(video):
    return torch.cat(video.movedim(2, 1).unbind(0))


def from_spatial(x, batch):
    if x.shape[0] % batch != 0:
        raise ValueError("frames of other videos")
    return x.reshape(batch, -1, *x.shape[1:]).swapaxes(1, 2)


def to_temporal(video):
    return video.movedim((2, 1), (-2, -1)).reshape(-1, video.shape[2], video.shape[1])


def from_temporal(x, batch, height, width):
    if batch * height * width != len(x):
        raise ValueError("pixels of other videos")
    return x.reshape(batch, height, width, *x.shape[1:]).movedim((-1, -2), (1, 2))


def attention_mask(kind, frames, height, width, block):
    time, space = torch.eye(frames), torch.eye(height * width)
    if kind == "causal":
        if frames % block:
            raise ValueError("a block is not whole")
        past = torch.ones(frames // block, frames // block).tril()
        time = torch.kron(past, torch.ones(block, block))
    elif kind not in ("full", "spatial", "temporal"):
        raise ValueError(kind)
    if kind in ("full", "temporal"):
        time = torch.ones_like(time)
    if kind != "temporal":
        space = torch.ones_like(space)
    return torch.kron(time, space) > 0


def rope_3d(frames, height, width, head_dim, theta, start):
    third = head_dim // 6
    if third == 0 or head_dim % 2:
        raise ValueError(f"{head_dim} features")
    turns = []
    for axis, (count, first) in enumerate(((frames, start), (height, 0), (width, 0))):
        d = 2 * third if axis else head_dim - 4 * third
        pairs = torch.arange(d // 2, dtype=torch.float64) * 2 / d
        places = torch.arange(first, first + count, dtype=torch.float64)
        angle = torch.outer(places, torch.pow(theta, -pairs))
        shape = [1, 1, 1, d // 2]
        shape[axis] = count
        whole = torch.polar(torch.ones_like(angle), angle).reshape(shape)
        turns.append(whole.expand(frames, height, width, -1))
    every = torch.cat(turns, dim=-1).flatten(0, 2)
    doubled = torch.stack((every, every), dim=-1).flatten(1)
    return doubled.real.float(), doubled.imag.float()


def image_condition(encode, first, last, frames, mean, std, ratio):
    steps, rest = divmod(frames - 1, ratio)
    if rest or steps < 0 or (frames == 1 and last is not None):
        raise ValueError(f"{frames} frames")
    clip = nn.pad(first.unsqueeze(2), (0, 0, 0, 0, 0, frames - 1))
    mask = torch.zeros(ratio, steps + 1)
    mask[:, 0] = 1
    if last is not None:
        clip[:, :, -1] += last
        mask[ratio - 1, steps] = 1
    z = encode(clip)
    shift, scale = torch.tensor(mean), torch.tensor(std)
    normal = torch.einsum("bcfhw,c->bcfhw", z, 1 / scale) - (shift / scale)[:, None, None, None]
    planes = mask.repeat(len(z), 1, 1)[..., None, None] * torch.ones_like(z[:, :1])
    return torch.cat((planes, normal), 1)


def first_frame_loop(denoiser, scheduler, latents, first):
    noisy = torch.ones(latents.shape[0], latents.shape[2])
    noisy[:, 0] = 0
    moving = noisy[:, None, :, None, None].bool()
    state = torch.where(moving, latents, first)
    for t in scheduler.timesteps.unbind():
        (after,) = scheduler.step(denoiser(state, noisy * t), t, state, return_dict=False)
        state = torch.where(moving, after, first)
    return state


def windows(frames, length, stride):
    if not (length <= frames and 0 < stride <= length):
        raise ValueError("windows that leave gaps")
    starts = torch.arange(frames).unfold(0, length, stride)[:, 0].tolist()
    starts += [frames - length] * (starts[-1] != frames - length)
    return [(a, a + length) for a in starts]


def blend_windows(layer, hidden, length, stride, scheme):
    if scheme not in {"flat", "pyramid"}:
        raise ValueError(f"{scheme} is unknown")
    ramp = torch.ones(length)
    if scheme == "pyramid":
        ramp = torch.cat((torch.arange(1, length // 2 + 1), torch.arange((length + 1) // 2, 0, -1)))
    frames = hidden.shape[1]
    top, bottom = torch.zeros_like(hidden), torch.zeros(frames)
    for a, b in reversed(windows(frames, length, stride)):
        weight = ramp.float() / length
        if a % stride:
            weight = torch.where(
                torch.arange(a, b) < (frames - length) // stride * stride + length, 0, weight
            )
        index = torch.arange(a, b)
        top = top.index_add(1, index, layer(hidden[:, a:b]) * weight[:, None])
        bottom = bottom.index_add(0, index, weight)
    return top / bottom[None, :, None]
