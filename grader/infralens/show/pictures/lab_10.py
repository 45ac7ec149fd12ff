"""Lab 10: what smaller chunks and tiles save, and the seams that tiles leave."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from matplotlib.figure import Figure
from torch import Tensor

from infralens.shapes.drawing import PICTURE, Combination, Drawing
from infralens.shapes.exact import pictures_of
from infralens.show.pictures.answers import NotDrawnError, number, tensor
from infralens.show.pictures.lab_05 import vae
from infralens.show.pictures.look import (
    DASHES,
    LIBRARY,
    MINE,
    SERIES,
    picture,
    plain,
    sheet,
    upright,
)

ENLARGED = 3  # a picture of 96 pixels a side: more than one tile
SIDE, UPSCALE, CHANNELS = 24, 4, 4  # of its latents
TILE, OVERLAPS = 10, (0, 2, 5)
SEAMS = 6  # times: what the tiles change, enlarged for the eye
CHUNKS = (16, 32, 64, 128, 256, 512, 1024, 2048, 4096)
TOKENS, HEADS, HALF = 64 * 64, 8, 2  # of Stable Diffusion's UNet at 512 × 512, in float16
TILES = tuple(range(4, SIDE + 1, 2))
CONFIG: dict[str, Any] = {
    "vae_scale": 8,
    "attention_downsample": 1,
    "heads": HEADS,
    "guidance": True,
    "slice_size": 1,
    "vae_block_out_channels": [128, 256, 512, 512],
}
STAR = Drawing(Combination("large", "yellow", "star", "navy"), 11.0, PICTURE / 2, PICTURE / 2)


@dataclass(frozen=True)
class Decoded:
    """A picture decoded in tiles, and the most latents that one call was given."""

    image: Tensor  # (3, H, W)
    largest: int


def draw(mine: Any, seed: int) -> Figure:
    """Bytes against the size of a chunk and of a tile, and the seams under three overlaps."""
    image = pictures_of([STAR]).images.repeat_interleave(ENLARGED, 2)
    image = image.repeat_interleave(ENLARGED, 3)
    image = image + 0.02 * torch.randn(
        image.shape, generator=torch.Generator().manual_seed(seed)
    )  # so that no two tiles are alike
    latents = vae().encode(image).latent_dist.mode()
    whole = vae().decode(latents).sample[0].double()

    figure = sheet(9.6, 6.9, "Lab 10 · smaller chunks, smaller tiles, and what they cost")
    _chunks(figure, mine)
    _tiles(figure, mine, latents)
    picture(figure.add_axes((0.02, 0.18, 0.15, 0.209)), whole, "decoded whole")
    for k, (name, colour) in enumerate((("yours", MINE), ("diffusers", LIBRARY))):
        bottom = 0.29 - 0.215 * k
        for i, overlap in enumerate(OVERLAPS):
            shown = (
                yours(mine, latents, TILE, overlap).image if k == 0 else library(latents, overlap)
            )
            seams = ((shown - whole).abs() * SEAMS - 1).clamp(-1, 1)
            words = "no blending" if overlap == 0 else f"blended over {overlap} of {TILE}"
            titles = (words, f"its difference, ×{SEAMS}") if k == 0 else ("", "")
            left = 0.215 + 0.262 * i
            picture(figure.add_axes((left, bottom, 0.122, 0.2)), shown, titles[0])
            picture(figure.add_axes((left + 0.127, bottom, 0.122, 0.2)), seams, titles[1])
        upright(figure, 0.215, bottom + 0.1, name, colour)
    return figure


def _chunks(figure: Figure, mine: Any) -> None:
    """The scores of one attention by the learner's estimate, on those of the real tensors."""
    axes = figure.add_axes((0.075, 0.63, 0.4, 0.285))
    wanted = {
        "full": [2 * HEADS * TOKENS**2 * HALF] * len(CHUNKS),
        "sliced": [TOKENS**2 * HALF] * len(CHUNKS),
        "chunked": [2 * HEADS * TOKENS * chunk * HALF for chunk in CHUNKS],
    }
    for i, (kind, right) in enumerate(wanted.items()):
        said = [_scores(mine, kind, chunk) / 2**20 for chunk in CHUNKS]
        axes.plot(CHUNKS, [b / 2**20 for b in right], color=SERIES[i], linewidth=5, alpha=0.3)
        axes.plot(CHUNKS, said, color=SERIES[i], linestyle=DASHES[i], label=f"{kind}, yours")
    axes.plot([], [], color="#767676", linewidth=5, alpha=0.3, label="the real tensors")
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    plain(axes, "keys in a chunk", "scores alive at once, MiB")
    axes.legend(fontsize=7, frameon=False)


def _scores(mine: Any, kind: str, chunk: int) -> float:
    config = {**CONFIG, "attention": kind, "chunk": chunk}
    told = mine.bytes_needed({"unet": 1}, torch.float16, 1, 512, 512, config)
    if not isinstance(told, dict) or "scores" not in told:
        raise NotDrawnError("`bytes_needed` gave no dict that has scores.")
    return max(number(told["scores"], "bytes_needed: scores"), 1.0)


def _tiles(figure: Figure, mine: Any, latents: Tensor) -> None:
    """The largest picture that one call of the decoder makes, as seen from here."""
    axes = figure.add_axes((0.57, 0.63, 0.405, 0.285))
    width = vae().config.block_out_channels[1] * UPSCALE**2 * 4 / 2**20
    right = [min(tile, SIDE) ** 2 * width for tile in TILES]
    said = [yours(mine, latents, tile, tile // 4).largest * width for tile in TILES]
    axes.plot(TILES, right, color=SERIES[0], linewidth=5, alpha=0.3, label="diffusers")
    axes.plot(TILES, said, color=SERIES[1], label="yours")
    axes.set_ylim(0)
    axes.set_xticks(TILES[::2])
    plain(
        axes, f"latents along a tile's side (the picture has {SIDE})", "decoder at its widest, MiB"
    )
    axes.legend(fontsize=7, frameon=False)


def yours(mine: Any, latents: Tensor, tile: int, overlap: int) -> Decoded:
    """By the learner's tiled_decode. What the decoder is handed may be anything."""
    seen = [0]

    def decode(z: Any) -> Tensor:
        sides = tuple(z.shape[-2:]) if isinstance(z, Tensor) and z.ndim == 4 else (SIDE, SIDE)
        if not all(1 <= side <= SIDE for side in sides):
            raise NotDrawnError("the decoder takes a part of the latents")
        given = tensor(z, (1, CHANNELS, *sides), "what decode is given").float()
        seen.append(sides[0] * sides[1])
        image: Tensor = vae().decode(given).sample
        return image

    answer = mine.tiled_decode(decode, latents, tile, overlap, UPSCALE)
    wanted = (1, 3, SIDE * UPSCALE, SIDE * UPSCALE)
    return Decoded(tensor(answer, wanted, "tiled_decode")[0], max(seen))


def library(latents: Tensor, overlap: int) -> Tensor:
    """By AutoencoderKL.tiled_decode, whose overlap is a share of the tile."""
    network = vae()
    network.tile_latent_min_size, network.tile_sample_min_size = TILE, TILE * UPSCALE
    network.tile_overlap_factor = overlap / TILE
    image: Tensor = network.tiled_decode(latents).sample[0]
    return image.double()
