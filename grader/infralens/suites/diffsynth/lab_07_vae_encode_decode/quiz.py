"""Lab 07 of diffsynth: the reading checkpoints, answered by diffusers' VAEs."""

from __future__ import annotations

import torch
from diffusers import AutoencoderKLFlux2, AutoencoderKLHunyuanVideo
from diffusers.models.autoencoders.autoencoder_kl_cogvideox import CogVideoXCausalConv3d
from diffusers.models.autoencoders.autoencoder_kl_wan import WanRMS_norm

from infralens.quiz import question
from infralens.suites.diffsynth.lab_07_vae_encode_decode import live

META = torch.device("meta")


@question("AutoencoderKLWan encodes 17 frames: how often is its encoder called?")
def calls_of_the_encoder() -> int:
    """One frame, then four groups of four."""
    return len(live.lengths_encoded(live.wan(4), torch.zeros(1, 3, 17, 8, 8)))


@question("How many frames does a causal convolution with a kernel of 5 frames keep?")
def frames_in_the_cache() -> int:
    """Those before the one it is at."""
    with torch.no_grad():
        _, cache = CogVideoXCausalConv3d(1, 1, (5, 1, 1))(torch.zeros(1, 1, 9, 1, 1))
    return int(cache.shape[2])


@question(
    "AutoencoderKLHunyuanVideo decodes 21 latent frames, with tiles of 16 frames every 12 (its "
    "own numbers): how often is its decoder called?"
)
def calls_of_the_decoder() -> int:
    """A tile begins at every third latent frame: 0, 3 … 18."""
    with META:
        vae = AutoencoderKLHunyuanVideo(
            block_out_channels=(8, 8, 8, 8), norm_num_groups=4, layers_per_block=1
        ).eval()
    calls: list[int] = []
    vae.decoder.register_forward_pre_hook(lambda _, args: calls.append(1))
    with torch.no_grad():
        vae.decode(torch.empty(1, 16, 21, 2, 2, device=META))
    return len(calls)


@question("Flux 2's VAE has 32 latent channels: how many running means does its batch norm hold?")
def means_of_flux() -> int:
    """Of the channels after 2 × 2 pixels were folded into them."""
    with META:
        vae = AutoencoderKLFlux2(
            block_out_channels=(8, 8, 8, 8), norm_num_groups=4, layers_per_block=1
        )
    return int(vae.bn.running_mean.numel())


@question(
    "A pixel has 20,000 in each of 16 channels, in float16: does Wan's norm, done in float16 "
    "alone, bring it to zero?"
)
def length_beyond_float16() -> bool:
    """Its length is 80,000, which is infinite in float16; the library casts up before."""
    pixel = torch.full((1, 16, 1, 1, 1), 20_000.0).half()
    alone = torch.nn.functional.normalize(pixel, dim=1)
    with torch.no_grad():
        theirs = WanRMS_norm(16, images=False).half()(pixel)
    return bool((alone == 0).all()) and not bool((theirs == 0).any())


@question(
    "A Wan VAE streams 21 latent frames to pictures: how many frames does it hand out in one "
    "group after the first?",
    choices=("1", "4", "21", "81"),
)
def frames_of_a_group() -> str:
    """The first latent frame makes one frame, each other four."""
    lengths = live.decoded(live.wan(4, exact=True), torch.zeros(1, 4, 2, 1, 1)).lengths
    return str(lengths[1])
