"""Lab 05: two pictures go through the shipped VAE as the learner's code sends them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from diffusers import AutoencoderKL
from diffusers.image_processor import VaeImageProcessor
from matplotlib.figure import Figure
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from infralens import shapes
from infralens.examiner.candidate.proxies import remote
from infralens.shapes.drawing import PICTURE, Combination, Drawing, paint
from infralens.show.pictures.answers import pixels, tensor
from infralens.show.pictures.look import FAINT, LIBRARY, MINE, field, picture, sheet, upright
from infralens.wire import Namespace

CENTRE = PICTURE / 2
DRAWINGS = (
    Drawing(Combination("large", "yellow", "star", "navy"), 11.0, CENTRE, CENTRE),
    Drawing(Combination("small", "red", "ring", "gray"), 6.5, CENTRE - 5, CENTRE + 5),
)
CHANNELS, SIDE = 4, 8
LATENTS = (1, CHANNELS, SIDE, SIDE)
IMAGE = (1, 3, PICTURE, PICTURE)
PIXELS = (1, PICTURE, PICTURE, 3)
LIMIT = 2.5  # of a latent's colour: they are of about unit size
ENLARGED = 4  # times: what the way through the VAE changes is small


@dataclass(frozen=True)
class Passage:
    """One picture's way through the VAE, by the learner or by the library."""

    latents: Tensor  # (C, h, w)
    back: NDArray[np.uint8]  # (H, W, 3)
    drawn: NDArray[np.uint8]  # (H, W, 3): the same from a draw, not from the mode


def draw(mine: Any, seed: int) -> Figure:
    """Picture, latent channels, reconstruction and difference: the learner's above diffusers'."""
    generator = torch.Generator().manual_seed(seed)
    figure = sheet(9.6, 6.0, "Lab 05 · a picture through the VAE, and back")
    for i, drawing in enumerate(DRAWINGS):
        image, noise = paint(drawing), torch.randn(LATENTS, generator=generator)
        passages = (("yours", MINE, yours(mine)), ("diffusers", LIBRARY, library()))
        for k, (name, colour, through) in enumerate(passages):
            bottom = 0.73 - 0.46 * i - 0.215 * k
            _row(figure, bottom, name, colour, np.asarray(image), through(image, noise), k == 0)
    return figure


def _row(
    figure: Figure,
    bottom: float,
    name: str,
    colour: str,
    image: NDArray[np.uint8],
    passage: Passage,
    first: bool,
) -> None:
    gap = np.abs(passage.back.astype(int) - image.astype(int)) * ENLARGED
    words = ["picture", *(f"latent channel {c}" for c in range(CHANNELS))]
    words += ["reconstruction", f"difference, ×{ENLARGED}", "from a draw"]
    titles = words if first else [""] * len(words)
    places = [figure.add_axes((0.045 + 0.119 * i, bottom, 0.112, 0.18)) for i in range(len(words))]
    picture(places[0], _as_image(image), titles[0])
    for axes, latents, title in zip(places[1:5], passage.latents, titles[1:5], strict=True):
        field(axes, latents, LIMIT, title, lowest=-LIMIT)
        told = f"{float(latents.mean()):+.2f} ± {float(latents.std()):.2f}"
        axes.set_xlabel(told, fontsize=7, color=FAINT, labelpad=2)
    shown = (passage.back, gap.clip(0, 255).astype(np.uint8), passage.drawn)
    for axes, each, title in zip(places[5:], shown, titles[5:], strict=True):
        picture(axes, _as_image(each), title)
    upright(figure, 0.045, bottom + 0.09, name, colour)


def _as_image(array: NDArray[np.uint8]) -> Tensor:
    return torch.from_numpy(array.copy()).permute(2, 0, 1) / 127.5 - 1


def yours(mine: Any) -> Callable[[Image.Image, Tensor], Passage]:
    """The way as the learner's functions go it, with the VAE lent to them."""
    lent = remote(LentVae(vae()), attributes=["config"], methods=["encode", "decode"])

    def through(image: Image.Image, noise: Tensor) -> Passage:
        x = tensor(mine.to_model_range(np.asarray(image)), IMAGE, "to_model_range").float()
        latents = tensor(mine.encode(lent, x, None), LATENTS, "encode")
        other = tensor(mine.encode(lent, x, noise), LATENTS, "encode")
        backs = []
        for z in (latents, other):
            decoded = tensor(mine.decode(lent, z.float()), IMAGE, "decode").float()
            backs.append(pixels(mine.to_image(decoded), PIXELS, "to_image")[0])
        return Passage(latents[0], *backs)

    return through


def library() -> Callable[[Image.Image, Tensor], Passage]:
    """The way as a pipeline of diffusers goes it."""
    network, processor = vae(), VaeImageProcessor(vae_scale_factor=PICTURE // SIDE)
    factor = network.config.scaling_factor

    def through(image: Image.Image, noise: Tensor) -> Passage:
        posterior = network.encode(processor.preprocess(image)).latent_dist
        backs = []
        latents = posterior.mode() * factor
        for z in (latents, (posterior.mean + posterior.std * noise) * factor):
            decoded = network.decode(z / factor).sample
            backs.append(np.asarray(processor.postprocess(decoded, output_type="pil")[0]))
        return Passage(latents[0], *backs)

    return through


@lru_cache(maxsize=1)
def vae() -> AutoencoderKL:
    """The shipped VAE."""
    return AutoencoderKL.from_pretrained(shapes.FOLDER / "vae", local_files_only=True).eval()


class LentVae:
    """The VAE as the learner gets it: tensors in, tensors out. What comes in may be anything."""

    def __init__(self, network: AutoencoderKL) -> None:
        self.network = network
        told = {key: value for key, value in network.config.items() if not key.startswith("_")}
        self.config = Namespace(told)

    def encode(self, x: Any) -> Tensor:
        image = tensor(x, IMAGE, "what vae.encode is given").float()
        moments: Tensor = self.network.encode(image).latent_dist.parameters
        return moments

    def decode(self, z: Any) -> Tensor:
        latents = tensor(z, LATENTS, "what vae.decode is given").float()
        image: Tensor = self.network.decode(latents).sample
        return image
