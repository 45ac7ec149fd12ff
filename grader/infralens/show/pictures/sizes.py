"""Config reading (lab 01 of diffsynth): picture tokens over the size, beside diffusers' shapes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from diffusers import (
    AutoencoderKL,
    AutoencoderKLLTXVideo,
    AutoencoderKLWan,
    SD3Transformer2DModel,
    WanTransformer3DModel,
)
from matplotlib.figure import Figure
from torch import Tensor

from infralens.show.pictures.answers import number
from infralens.show.pictures.look import LIBRARY, MINE, plain, sheet

META = torch.device("meta")  # a network there has shapes and no numbers, and is quick
SIDES = (256, 512, 768, 1024, 1536, 2048)
FRAMES = (1, 9, 17, 33, 49)
HEIGHT, WIDTH = 480, 832
LTX_LEVELS = (True, True, True, False)
Cut = Callable[[Any, Tensor], int]

VAES: Mapping[Any, Mapping[str, Any]] = {
    AutoencoderKL: {
        "block_out_channels": (8,) * 4,
        "down_block_types": ("DownEncoderBlock2D",) * 4,
        "up_block_types": ("UpDecoderBlock2D",) * 4,
        "latent_channels": 16,
        "norm_num_groups": 4,
    },
    AutoencoderKLWan: {"base_dim": 4, "num_res_blocks": 1},
    AutoencoderKLLTXVideo: {
        "block_out_channels": (8,) * 4,
        "decoder_block_out_channels": (8,) * 4,
        "layers_per_block": (1,) * 5,
        "decoder_layers_per_block": (1,) * 5,
        "spatio_temporal_scaling": LTX_LEVELS,
        "decoder_spatio_temporal_scaling": LTX_LEVELS,
    },
}
"""As small as they can be built: their shapes are those of the large ones."""


def draw(mine: Any, seed: int) -> Figure:
    """The learner's tokens as rings on those of diffusers. Nothing is drawn at random."""
    figure = sheet(9.6, 4.2, "Config reading · picture tokens over the size")
    left = figure.add_axes((0.085, 0.14, 0.39, 0.73))
    right = figure.add_axes((0.585, 0.14, 0.39, 0.73))
    images = [(side, side, 1) for side in SIDES]
    videos = [(HEIGHT, WIDTH, frames) for frames in FRAMES]
    rows = (
        (left, SIDES, images, "Stable Diffusion 3", AutoencoderKL, sd3(), "o"),
        (right, FRAMES, videos, "Wan", AutoencoderKLWan, wan(), "o"),
        (right, FRAMES, videos, "LTX", AutoencoderKLLTXVideo, ltx(), "s"),
    )
    for axes, over, sizes, name, kind, (network, cut), marker in rows:
        with META:
            vae = kind(**VAES[kind]).eval()
        counts = [cut(vae, torch.empty(shape, device=META)) for shape in map(pixels, sizes)]
        config = {**vae.config, "_class_name": kind.__name__}
        answers = [mine.sequence_length(config, network, *size) for size in sizes]
        tokens = [number(answer, "sequence_length") for answer in answers]
        axes.plot(over, counts, color=LIBRARY, linewidth=6, alpha=0.3)
        label = f"{name}, yours"
        axes.plot(over, tokens, marker, color=MINE, markersize=9, mfc="none", label=label)
    for axes, words in ((left, "side of a square image, pixels"), (right, "frames of 480 × 832")):
        axes.plot([], [], color=LIBRARY, linewidth=6, label="diffusers")
        plain(axes, words, "picture tokens")
        axes.set_yscale("log")
        axes.legend(fontsize=8, frameon=False, loc="lower right")
    return figure


def pixels(size: tuple[int, int, int]) -> tuple[int, ...]:
    """The shape of an image, or of a video."""
    height, width, frames = size
    still = (height, width) != (HEIGHT, WIDTH)
    return (1, 3, height, width) if still else (1, 3, frames, height, width)


def latents(vae: Any, shown: Tensor) -> Tensor:
    """What the VAE encodes to: a shape."""
    with torch.no_grad():
        mean: Tensor = vae.encode(shown).latent_dist.mean
    return mean


def sd3() -> tuple[dict[str, Any], Cut]:
    """Stable Diffusion 3's config, and its tokens: what its first convolution cuts."""
    with META:
        network = SD3Transformer2DModel(num_layers=1)

    def cut(vae: Any, shown: Tensor) -> int:
        return int(network.pos_embed.proj(latents(vae, shown)).flatten(2).shape[2])

    return {**network.config, "_class_name": "SD3Transformer2DModel"}, cut


def wan() -> tuple[dict[str, Any], Cut]:
    """The same of Wan."""
    with META:
        network = WanTransformer3DModel(num_layers=1)

    def cut(vae: Any, shown: Tensor) -> int:
        return int(network.patch_embedding(latents(vae, shown)).flatten(2).shape[2])

    return {**network.config, "_class_name": "WanTransformer3DModel"}, cut


def ltx() -> tuple[dict[str, Any], Cut]:
    """The same of LTX, where each latent pixel is a token."""
    config = {"_class_name": "LTXVideoTransformer3DModel", "in_channels": 128}
    config |= {"patch_size": 1, "patch_size_t": 1}
    return config, lambda vae, shown: int(latents(vae, shown).flatten(2).shape[2])
