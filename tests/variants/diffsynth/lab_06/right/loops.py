"""With loops: frames, pixels, tokens and places are gone through one by one."""

import math

import torch


def video_shape(config, batch, frames, height, width):
    if frames <= 0:
        raise ValueError("a video has a frame")
    for side in (height, width):
        if side % (config["spatial"] * config["patch"]):
            raise ValueError(f"{side} by {config['spatial'] * config['patch']}")
    r = config["temporal"]
    if frames % r == 0:
        frames += 1
    while frames % r != 1:
        frames -= 1
    count, seen = 1, 1
    while seen < frames:
        count, seen = count + 1, seen + r
    sides = [side // config["spatial"] for side in (height, width)]
    tokens = count
    for side in sides:
        tokens *= side // config["patch"]
    return {"tokens": tokens, "latents": (batch, config["channels"], count, *sides), "frames": seen}


def to_spatial(video):
    return torch.stack([one[:, f] for one in video for f in range(video.shape[2])])


def from_spatial(x, batch):
    length, rest = divmod(len(x), batch)
    if rest:
        raise ValueError(batch)
    return torch.stack(
        [torch.stack(list(x[b * length : (b + 1) * length]), 1) for b in range(batch)]
    )


def to_temporal(video):
    rows = []
    for one in video:
        for y in range(one.shape[2]):
            for x in range(one.shape[3]):
                rows.append(one[:, :, y, x].T)
    return torch.stack(rows)


def from_temporal(x, batch, height, width):
    n, frames, channels = x.shape
    if n != batch * height * width:
        raise ValueError(n)
    out = x.new_empty(batch, channels, frames, height, width)
    for i in range(n):
        out[i // (height * width), :, :, i // width % height, i % width] = x[i].T
    return out


def attention_mask(kind, frames, height, width, block):
    if kind not in ("full", "spatial", "temporal", "causal"):
        raise ValueError(kind)
    if kind == "causal" and frames % block:
        raise ValueError(block)
    pixels = height * width

    def may(i, j):
        if kind == "spatial":
            return i // pixels == j // pixels
        if kind == "temporal":
            return (i - j) % pixels == 0
        return kind == "full" or j // pixels // block <= i // pixels // block

    n = frames * pixels
    return torch.tensor([[may(i, j) for j in range(n)] for i in range(n)])


def rope_3d(frames, height, width, head_dim, theta, start):
    if head_dim < 6 or head_dim % 2 == 1:
        raise ValueError(head_dim)
    space = head_dim // 6 * 2
    rows = []
    for f in range(frames):
        for y in range(height):
            for x in range(width):
                row = []
                for where, d in ((f + start, head_dim - space - space), (y, space), (x, space)):
                    for i in range(d // 2):
                        row += 2 * [where / theta ** (2 * i / d)]
                rows.append(row)
    tables = [[[turn(angle) for angle in row] for row in rows] for turn in (math.cos, math.sin)]
    return torch.tensor(tables[0]), torch.tensor(tables[1])


def image_condition(encode, first, last, frames, mean, std, ratio):
    if frames % ratio != 1 % ratio or frames < 1:
        raise ValueError(frames)
    if last is not None and frames == 1:
        raise ValueError("two pictures for one frame")
    clip = [torch.zeros_like(first) for _ in range(frames)]
    clip[0] = first
    known = [1.0] * ratio + [0.0] * (frames - 1)
    if last is not None:
        clip[frames - 1], known[-1] = last, 1.0
    latents = encode(torch.stack(clip, dim=2))
    batch, _, length, h, w = latents.shape
    out = []
    for c in range(ratio):
        plane = latents.new_zeros(batch, length, h, w)
        for f in range(length):
            plane[:, f] = known[f * ratio + c]
        out.append(plane)
    for c, (centre, spread) in enumerate(zip(mean, std, strict=True)):
        out.append((latents[:, c] - centre) / spread)
    return torch.stack(out, dim=1)


def first_frame_loop(denoiser, scheduler, latents, first):
    others = latents[:, :, 1:]
    batch, frames = latents.shape[0], latents.shape[2]
    for t in iter(scheduler.timesteps):
        told = torch.tensor([[0.0] + [float(t)] * (frames - 1)] * batch)
        said = denoiser(torch.cat((first, others), 2), told)
        others = scheduler.step(said[:, :, 1:], t, others).prev_sample
    return torch.cat((first, others), 2)


def windows(frames, length, stride):
    if frames < length or stride < 1 or stride > length:
        raise ValueError((frames, length, stride))
    found, a = [], 0
    while a + length <= frames:
        found.append((a, a + length))
        a += stride
    if found[-1][1] != frames:
        found.append((frames - length, frames))
    return found


def blend_windows(layer, hidden, length, stride, scheme):
    if scheme == "flat":
        weight = [1] * length
    elif scheme == "pyramid":
        weight = [min(k, length - 1 - k) + 1 for k in range(length)]
    else:
        raise ValueError(scheme)
    cuts = windows(hidden.shape[1], length, stride)
    answers = [layer(hidden[:, a:b]) for a, b in cuts]
    regular = [n for n, (a, _) in enumerate(cuts) if a % stride == 0]
    frames = []
    for f in range(hidden.shape[1]):
        over = [n for n in regular if cuts[n][0] <= f < cuts[n][1]]
        if not over:
            frames.append(answers[-1][:, f - cuts[-1][0]])
            continue
        parts = [(weight[f - cuts[n][0]], answers[n][:, f - cuts[n][0]]) for n in over]
        frames.append(sum(w * part for w, part in parts) / sum(w for w, _ in parts))
    return torch.stack(frames, dim=1)
