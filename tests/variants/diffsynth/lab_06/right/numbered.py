"""Folds by a table of places, masks by triples, tables in float32, windows gathered and scattered."""

import torch


def video_shape(config, batch, frames, height, width):
    multiple = config["patch"] * config["spatial"]
    if not frames >= 1:
        raise ValueError("frames")
    if (height % multiple, width % multiple) != (0, 0):
        raise ValueError(f"a multiple of {multiple}, please")
    r = config["temporal"]
    groups = max((frames - 1) // r, frames // r)
    size = [height // config["spatial"], width // config["spatial"]]
    per_frame = (height // multiple) * (width // multiple)
    return dict(
        latents=[batch, config["channels"], groups + 1] + size,
        tokens=per_frame + groups * per_frame,
        frames=1 + groups * r,
    )


def gathered(x, letters, order, shape):
    """x, whose axes have these letters and lengths, with its numbers in the order of others."""
    lengths = dict(zip(letters, shape))
    place = torch.arange(x.numel()).reshape(shape)
    place = torch.einsum(f"{letters}->{order}", place)
    return x.reshape(-1)[place.reshape(-1)], [lengths[letter] for letter in order]


def to_spatial(video):
    flat, (b, f, *rest) = gathered(video, "bcfhw", "bfchw", video.shape)
    return flat.reshape(b * f, *rest)


def from_spatial(x, batch):
    if len(x) // batch * batch != len(x):
        raise ValueError(f"{len(x)} by {batch}")
    flat, shape = gathered(x, "bfchw", "bcfhw", [batch, len(x) // batch, *x.shape[1:]])
    return flat.reshape(shape)


def to_temporal(video):
    flat, (b, h, w, f, c) = gathered(video, "bcfhw", "bhwfc", video.shape)
    return flat.reshape(b * h * w, f, c)


def from_temporal(x, batch, height, width):
    if len(x) - batch * height * width:
        raise ValueError(f"{len(x)} pixels")
    flat, shape = gathered(x, "bhwfc", "bcfhw", [batch, height, width, *x.shape[1:]])
    return flat.reshape(shape)


def triples(frames, height, width):
    return torch.cartesian_prod(torch.arange(frames), torch.arange(height), torch.arange(width))


def attention_mask(kind, frames, height, width, block):
    ids = triples(frames, height, width)
    looks, seen = ids[:, None], ids[None, :]
    if kind == "full":
        return (looks == looks).all(-1) & (seen == seen).all(-1)
    if kind == "spatial":
        return ~(looks - seen)[..., 0].bool()
    if kind == "temporal":
        return (looks - seen)[..., 1:].abs().sum(-1) < 1
    if kind == "causal" and frames % block == 0:
        ends = (looks[..., 0] // block + 1) * block  # the first frame that is too late
        return seen[..., 0] < ends
    raise ValueError(f"{kind}, {block}")


def rope_3d(frames, height, width, head_dim, theta, start):
    if head_dim in (2, 4) or head_dim % 2 != 0:
        raise ValueError(f"a head of {head_dim}")
    side = head_dim // 6
    pairs = (head_dim // 2 - 2 * side, side, side)
    ids = triples(frames, height, width) + torch.tensor([start, 0, 0])
    axis = torch.repeat_interleave(torch.arange(3), torch.tensor(pairs))
    i = torch.cat([torch.arange(n) for n in pairs])
    speed = torch.tensor(theta) ** -(i / torch.tensor(pairs)[axis])
    angle = (ids[:, axis] * speed)[..., None].expand(-1, -1, 2).flatten(1)
    return torch.cos(angle), torch.sin(angle)


def image_condition(encode, first, last, frames, mean, std, ratio):
    known = torch.zeros(max(frames, 1) + ratio - 1, dtype=first.dtype)
    if frames <= 0 or len(known) % ratio or (last is not None and frames <= 1):
        raise ValueError(f"{frames} frames by {ratio}")
    ends = [first] if last is None else [first, last]
    grey = torch.zeros(*first.shape[:2], frames - len(ends), *first.shape[2:])
    video = torch.cat([first[:, :, None], grey, *(end[:, :, None] for end in ends[1:])], dim=2)
    known[:ratio] = 1
    known[len(known) - len(ends) + 1 :] = 1
    latents = encode(video)
    scaled = (
        latents.transpose(1, -1).sub(torch.tensor(mean)).div(torch.tensor(std)).transpose(1, -1)
    )
    whole = latents.new_empty(len(latents), ratio + latents.shape[1], *latents.shape[2:])
    whole[:, ratio:] = scaled
    whole[:, :ratio] = known.reshape(-1, ratio).t().reshape(1, ratio, -1, 1, 1)
    return whole


def first_frame_loop(denoiser, scheduler, latents, first):
    x = latents.clone()
    for t in list(scheduler.timesteps):
        x[:, :, 0] = first[:, :, 0]
        time = float(t) * (torch.arange(x.shape[2]) > 0).repeat(len(x), 1)
        x = scheduler.step(denoiser(x, time), t, x).prev_sample
    return torch.cat([first, x[:, :, 1:]], dim=2)


def windows(frames, length, stride):
    if stride <= 0 or max(stride, 0) > length or length > frames:
        raise ValueError(f"{length} of {frames}, every {stride}")
    last = frames - length
    return [(a, a + length) for a in sorted({*range(0, last + 1, stride), last})]


def blend_windows(layer, hidden, length, stride, scheme):
    weights = {
        "flat": torch.full((length,), 3.0),
        "pyramid": (length + 1) / 2 - (torch.arange(length) - (length - 1) / 2).abs(),
    }
    if scheme not in weights:
        raise ValueError(scheme)
    frames = hidden.shape[1]
    spans = windows(frames, length, stride)
    covered = spans[-1][1] if spans[-1][0] % stride == 0 else spans[-2][1]
    share = torch.zeros(len(spans), frames)
    said = torch.zeros(len(spans), *hidden.shape)
    for n, (a, b) in enumerate(spans):
        said[n, :, a:b] = layer(hidden[:, a:b].clone())
        if a % stride == 0:
            share[n, a:b] = weights[scheme]
        else:
            share[n, covered:] = 1
    return torch.einsum("npfc,nf->pfc", said, share / share.sum(0))
