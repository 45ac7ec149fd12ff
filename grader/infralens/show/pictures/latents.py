"""Latent shapes (lab 03 of diffsynth): latent frames and operations, beside the library's."""

from __future__ import annotations

from typing import Any

import torch
from diffusers import AutoencoderKLLTXVideo, AutoencoderKLWan, WanTransformer3DModel
from matplotlib.figure import Figure
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from infralens.show.pictures.answers import number
from infralens.show.pictures.look import LIBRARY, MINE, plain, sheet
from infralens.show.pictures.sizes import META, VAES, latents

FRAMES = (1, 5, 9, 13, 16, 17, 25, 33, 36, 41, 49)
LENGTHS = (1, 9, 17, 33, 81)
ROWS, COLUMNS, TEXT = 30, 52, 512  # of 480 × 832, in patches
PARTS = {"self": "attn1", "cross": "attn2", "ffn": "ffn"}
MARKERS = {"self": "o", "cross": "^", "ffn": "s"}
SMALL = {"num_attention_heads": 12, "attention_head_dim": 128, "num_layers": 1, "ffn_dim": 8960}
"""A block of the small Wan."""


def draw(mine: Any, seed: int) -> Figure:
    """The learner's numbers as rings on those of the library. Nothing is drawn at random."""
    figure = sheet(9.6, 4.2, "Latent shapes · frames, and what they cost")
    left = figure.add_axes((0.075, 0.14, 0.39, 0.73))
    right = figure.add_axes((0.585, 0.14, 0.39, 0.73))
    for kind, name, ratio, marker in (
        (AutoencoderKLWan, "Wan", 4, "o"),
        (AutoencoderKLLTXVideo, "LTX", 8, "s"),
    ):
        with META:
            vae = kind(**VAES[kind]).eval()
        shapes = [latents(vae, torch.empty(1, 3, n, 64, 64, device=META)).shape for n in FRAMES]
        answers = [mine.latent_frames(n, ratio) for n in FRAMES]
        counts = [number(answer, "latent_frames") for answer in answers]
        left.step(
            FRAMES, [s[2] for s in shapes], where="post", color=LIBRARY, linewidth=6, alpha=0.3
        )
        left.plot(
            FRAMES, counts, marker, color=MINE, markersize=8, mfc="none", label=f"{name}, yours"
        )
    tokens = [((n - 1) // 4 + 1) * ROWS * COLUMNS for n in LENGTHS]
    counted = [operations(n // (ROWS * COLUMNS)) for n in tokens]
    answers = [mine.transformer_flops(SMALL, 1, n, TEXT) for n in tokens]
    for part, marker in MARKERS.items():
        right.plot(LENGTHS, [c[part] for c in counted], color=LIBRARY, linewidth=6, alpha=0.3)
        values = [number(answer[part], f"transformer_flops, {part}") for answer in answers]
        right.plot(
            LENGTHS, values, marker, color=MINE, markersize=8, mfc="none", label=f"{part}, yours"
        )
    plain(left, "frames", "latent frames")
    plain(right, "frames of 480 × 832", "operations of a block")
    right.set_xscale("log")
    right.set_yscale("log")
    for axes, library in ((left, "diffusers"), (right, "counted by torch")):
        axes.plot([], [], color=LIBRARY, linewidth=6, label=library)
        axes.legend(fontsize=8, frameon=False, loc="upper left")
    return figure


def operations(frames: int) -> dict[str, int]:
    """What torch counts in one block for so many latent frames, by part."""
    with META:
        network = WanTransformer3DModel(**SMALL).eval()
    video = torch.empty(1, 16, frames, 2 * ROWS, 2 * COLUMNS, device=META)
    text = torch.empty(1, TEXT, 4096, device=META)
    with torch.no_grad(), sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        network(video, torch.empty(1, device=META), text)
    counts = counter.get_flop_counts()
    block = "WanTransformer3DModel.blocks.0."
    return {part: sum(counts[block + module].values()) for part, module in PARTS.items()}
