"""A clip in pieces, and a norm in half precision (lab 07 of diffsynth), beside the library's."""

from __future__ import annotations

from typing import Any

import torch
from diffusers.models.autoencoders.autoencoder_kl_wan import WanCausalConv3d, WanRMS_norm
from matplotlib.figure import Figure

from infralens.show.pictures.answers import NotDrawnError, tensor
from infralens.show.pictures.look import LIBRARY, MINE, plain, sheet

FRAMES, TAPS, CHANNELS = 32, 5, 8
LEVELS = (1, 10, 100, 1000, 5000, 10_000, 20_000, 30_000, 45_000, 60_000)


def draw(mine: Any, seed: int) -> Figure:
    """One number of each frame, through a kernel, and the length of pixels after the norm."""
    figure = sheet(9.6, 4.2, "Video VAE · frame by frame, and in float16")
    left = figure.add_axes((0.075, 0.14, 0.39, 0.73))
    right = figure.add_axes((0.585, 0.14, 0.39, 0.73))
    generator = torch.Generator().manual_seed(seed)
    clip = 3 + torch.randn(FRAMES, generator=generator).cumsum(0).reshape(1, 1, FRAMES, 1, 1) / 2
    layer = WanCausalConv3d(1, 1, (TAPS, 1, 1), padding=(TAPS // 2, 0, 0))
    weight, bias = torch.full((1, 1, TAPS, 1, 1), 1 / TAPS), torch.zeros(1)
    layer.load_state_dict({"weight": weight, "bias": bias})
    theirs = layer(clip).flatten()
    cache, points = None, []
    for frame in torch.split(clip, 1, dim=2):
        answer = mine.causal_conv3d(frame, weight, bias, cache, "zeros")
        if not isinstance(answer, tuple | list) or len(answer) != 2:
            raise NotDrawnError("`causal_conv3d` gives no pair of output and cache.")
        y, cache = answer
        points.append(float(tensor(y, (1, 1, 1, 1, 1), "causal_conv3d").sum()))
        cache = tensor(cache, (1, 1, TAPS - 1, 1, 1), "causal_conv3d, its cache").float()
    left.plot(clip.flatten(), color="#bbbbbb", linewidth=1, label="what goes in")
    left.plot(theirs, color=LIBRARY, linewidth=6, alpha=0.3)
    left.plot([], [], color=LIBRARY, linewidth=6, label="diffusers, the whole clip")
    left.plot(points, "o", color=MINE, markersize=7, mfc="none", label="yours, a frame at a time")
    plain(left, "frame", f"mean of {TAPS} frames")
    left.legend(fontsize=8, frameon=False)

    x = torch.stack([torch.full((CHANNELS,), float(level)) for level in LEVELS], 1).half()
    x = x.reshape(1, CHANNELS, len(LEVELS), 1, 1)
    norm = WanRMS_norm(CHANNELS, images=False).half()
    answer = mine.channel_rms_norm(x, norm.gamma.detach(), None)
    lengths = tensor(answer, tuple(x.shape), "channel_rms_norm").norm(dim=1).flatten()
    right.plot(
        LEVELS,
        norm(x).double().norm(dim=1).flatten().detach() / CHANNELS**0.5,
        color=LIBRARY,
        linewidth=6,
        alpha=0.3,
    )
    right.plot([], [], color=LIBRARY, linewidth=6, label="diffusers")
    right.plot(
        LEVELS, lengths / CHANNELS**0.5, "o", color=MINE, markersize=7, mfc="none", label="yours"
    )
    plain(right, f"size of each of {CHANNELS} channels, float16", "length after the norm / √C")
    right.set_xscale("log")
    right.set_ylim(-0.1, 1.5)
    right.legend(fontsize=8, frameon=False, loc="lower left")
    return figure
