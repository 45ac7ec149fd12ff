"""Lab 05: the checkpoints of the page, answered by the live library."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from diffusers import AutoencoderKL
from diffusers.image_processor import VaeImageProcessor
from diffusers.models.autoencoders.vae import DiagonalGaussianDistribution

from infralens.quiz import question


def vae_of(blocks: int, channels: int) -> Any:
    """An AutoencoderKL with this many blocks and latent channels."""
    return AutoencoderKL(
        block_out_channels=(4,) * blocks,
        down_block_types=("DownEncoderBlock2D",) * blocks,
        up_block_types=("UpDecoderBlock2D",) * blocks,
        latent_channels=channels,
        norm_num_groups=2,
    ).eval()


@torch.no_grad()
def latents_of(vae: Any, height: int, width: int) -> Any:
    return vae.encode(torch.zeros(1, 3, height, width)).latent_dist.mean


@question(
    "A VAE has three blocks and 16 latent channels. An image is 48 pixels high and 80 wide. Which "
    "shape do its latents have? (Four numbers.)"
)
def shape_of_the_latents() -> tuple[int, ...]:
    """(1, 16, 12, 20): three blocks halve twice, so the factor is 4, not 8."""
    return tuple(latents_of(vae_of(3, 16), 48, 80).shape)


@question(
    "AutoencoderKL with four blocks is given an image 100 pixels high and 64 wide, as it is. How "
    "high are the latents?"
)
def rounded_down() -> int:
    """12. The VAE rounds 12.5 down in silence, and decoding gives 96 rows back. Your latent_shape
    refuses such an image."""
    return int(latents_of(vae_of(4, 4), 100, 64).shape[2])


@question("The log variance of a latent comes out as 50. What standard deviation is used?")
def clamped_deviation() -> float:
    """e^10 ≈ 22026: the log variance is clamped to 20, and the std is e to half of it."""
    moments = torch.tensor([0.0, 50.0]).reshape(1, 2, 1, 1)
    return float(DiagonalGaussianDistribution(moments).std)


@question(
    "A VAE is called as a whole, `vae(x).sample`, twice on one image, with nothing else set. Are "
    "the two results equal?"
)
@torch.no_grad()
def the_same_twice() -> bool:
    """Yes. AutoencoderKL's forward takes the mode unless sample_posterior is True, and neither
    scales nor shifts: that is the pipeline's business."""
    vae, image = vae_of(2, 4), torch.rand(1, 3, 8, 8) * 2 - 1
    return torch.equal(vae(image).sample, vae(image).sample)


@question(
    "A white image is passed to VaeImageProcessor's preprocess as a uint8 array, not as a PIL "
    "image. Which number does the encoder get for each pixel?"
)
def white_as_an_array() -> float:
    """509, which is 2·255 − 1, in diffusers 0.42.1: only PIL images are divided by 255. Nothing
    fails; the latents are nonsense."""
    white = np.full((8, 8, 3), 255, dtype=np.uint8)
    return float(VaeImageProcessor(vae_scale_factor=1).preprocess(white).max())


@question(
    "Flux' VAE has the factor 8 and 16 latent channels. How many tokens does its transformer get "
    "for an image of 1024×768 pixels?"
)
def tokens_of_flux() -> int:
    """3072: latents of 128×96, in patches of 2×2, make 64·48 tokens of 64 numbers each."""
    from diffusers import FluxPipeline

    latents = torch.zeros(1, 16, 1024 // 8, 768 // 8)
    return int(FluxPipeline._pack_latents(latents, *latents.shape).shape[1])
