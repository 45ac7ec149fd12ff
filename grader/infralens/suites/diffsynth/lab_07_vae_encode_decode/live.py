"""What diffusers' video VAEs and pipelines make of a clip: pieces, constants, tiles, frames.

Networks have a few channels and are built once; they compute without oneDNN, which takes longer.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from diffusers import AutoencoderKLHunyuanVideo, AutoencoderKLWan
from diffusers.models.autoencoders.autoencoder_kl_cogvideox import CogVideoXCausalConv3d
from diffusers.models.autoencoders.autoencoder_kl_ltx import LTXVideoCausalConv3d
from diffusers.models.autoencoders.autoencoder_kl_wan import WanCausalConv3d
from diffusers.video_processor import VideoProcessor
from torch import Tensor

from infralens.examiner import quiet_transformers
from infralens.suites.networks import frozen, plain_convolutions, seeded
from infralens.suites.releases import since

Stats = dict[str, Any]

# Causal convolutions


def causal(family: str, weight: Tensor, bias: Tensor) -> Any:
    """The family's convolution, holding these numbers."""
    channels, depth, *kernel = weight.shape[1], weight.shape[0], *weight.shape[2:]
    if family == "Wan":
        padding = (kernel[0] // 2, kernel[1] // 2, kernel[2] // 2)
        layer: Any = WanCausalConv3d(channels, depth, tuple(kernel), padding=padding)
        inner = layer
    else:
        kind = {"CogVideoX": CogVideoXCausalConv3d, "LTX": LTXVideoCausalConv3d}[family]
        layer = kind(channels, depth, tuple(kernel))
        inner = layer.conv
    inner.load_state_dict({"weight": weight, "bias": bias})
    return frozen(layer)


def convolved(family: str, weight: Tensor, bias: Tensor, x: Tensor) -> Tensor:
    """The whole clip through it, at the beginning of a video."""
    with plain_convolutions():
        y = causal(family, weight, bias)(x)
    found: Tensor = y[0] if family == "CogVideoX" else y
    return found


# Wan's VAE


@functools.lru_cache
def wan(ratio: int, residual: bool = False, exact: bool = False) -> Any:
    """A tiny AutoencoderKLWan whose pictures go beyond −1 and 1; in float64 where `exact`."""
    colors = 12 if residual else 3
    with seeded(ratio):
        vae: Any = AutoencoderKLWan(
            base_dim=4,
            z_dim=4,
            dim_mult=[1] * ratio.bit_length(),
            num_res_blocks=1,
            temperal_downsample=[True] * (ratio.bit_length() - 1),
            latents_mean=[0.0] * 4,
            latents_std=[1.0] * 4,
            is_residual=residual,
            in_channels=colors,
            out_channels=colors,
            patch_size=2 if residual else None,
            scale_factor_temporal=ratio,
        )
    vae = frozen(vae)
    for name, parameter in vae.named_parameters():
        if name.endswith("bias"):
            parameter.normal_(0, 0.1, generator=torch.Generator().manual_seed(len(name)))
    vae.decoder.conv_out.weight.mul_(4)
    return vae.double() if exact else vae


PLACES = 64  # more than any of these networks has convolutions


class Streamed:
    """A VAE's encoder and decoder, called piece by piece; what they remember is here."""

    def __init__(self, vae: Any) -> None:
        self.vae = vae
        self.forget()

    def forget(self) -> None:
        self.of_encoder: list[Any] = [None] * PLACES
        self.of_decoder: list[Any] = [None] * PLACES

    def encode(self, frames: Tensor) -> Tensor:
        with plain_convolutions():
            moments: Tensor = self.vae.encoder(frames, feat_cache=self.of_encoder, feat_idx=[0])
        return moments

    def decode(self, latents: Tensor, first: bool) -> Tensor:
        with plain_convolutions():
            frames: Tensor = self.vae.decoder(
                latents, feat_cache=self.of_decoder, feat_idx=[0], first_chunk=first
            )
        return frames


def encoded(vae: Any, video: Tensor) -> Tensor:
    """The moments that AutoencoderKLWan.encode finds."""
    with plain_convolutions():
        moments: Tensor = vae.encode(video).latent_dist.parameters
    return moments


def lengths_encoded(vae: Any, video: Tensor) -> list[int]:
    """How many frames enter its encoder, call by call."""
    seen: list[int] = []
    hook = vae.encoder.register_forward_pre_hook(lambda _, args: seen.append(args[0].shape[2]))
    try:
        encoded(vae, video)
    finally:
        hook.remove()
    return seen


def encoded_by_hand(vae: Any, video: Tensor) -> Tensor:
    """The moments from pieces of its own ratio; AutoencoderKLWan takes four whatever that is."""
    stream, ratio = Streamed(vae), vae.config.scale_factor_temporal
    pieces = [video[:, :, :1], *torch.split(video[:, :, 1:], ratio, dim=2)]
    moments: Tensor = vae.quant_conv(torch.cat([stream.encode(piece) for piece in pieces], dim=2))
    return moments


def settled(output: Tensor) -> Tensor:
    """A picture in which no colour lies near the middle between two levels."""
    levels = (output + 1) * 127.5
    whole = levels.round()
    return (whole + 0.8 * (levels - whole)) / 127.5 - 1


@contextmanager
def settling(vae: Any) -> Iterator[None]:
    """While it lasts, what is decoded is settled, and what is decoded from is float32's.

    So that which way a colour is rounded is the same in one run and in another.
    """
    hooks = [
        vae.decoder.register_forward_hook(lambda _, args, output: settled(output)),
        vae.post_quant_conv.register_forward_hook(lambda _, args, output: output.float().double()),
    ]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


@dataclass(frozen=True)
class Decoding:
    """A clip that AutoencoderKLWan decoded: its pictures, and how its decoder was called."""

    pictures: Tensor  # (B, F, H, W, 3) uint8
    firsts: tuple[bool, ...]
    lengths: tuple[int, ...]


def decoded(vae: Any, latents: Tensor) -> Decoding:
    """Latents to pictures by AutoencoderKLWan and VideoProcessor."""
    firsts: list[bool] = []
    lengths: list[int] = []

    def note(_: Any, args: Any, kwargs: Any, output: Tensor) -> None:
        firsts.append(kwargs.get("first_chunk", False))
        lengths.append(output.shape[2])

    with settling(vae), plain_convolutions():
        hook = vae.decoder.register_forward_hook(note, with_kwargs=True)
        try:
            video = vae.decode(latents.double()).sample.float()
        finally:
            hook.remove()
    clips = VideoProcessor().postprocess_video(video, output_type="pil")
    pictures = np.stack([np.stack([np.array(frame) for frame in clip]) for clip in clips])
    return Decoding(torch.from_numpy(pictures), tuple(firsts), tuple(lengths))


# Constants of a family


class Standin(torch.nn.Module):
    """A VAE that encodes to latents it has, and keeps what it is asked to decode."""

    dtype = torch.float32
    device = torch.device("cpu")

    def __init__(self, latents: Tensor, stats: Mapping[str, Any]) -> None:
        super().__init__()
        self.latents = list(torch.split(latents, 1))
        self.decoded: list[Tensor] = []
        self.dtype = latents.dtype
        declared = dict(stats)
        if "bn_mean" in stats:
            self.bn = SimpleNamespace(
                running_mean=torch.tensor(stats["bn_mean"]),
                running_var=torch.tensor(stats["bn_var"]),
            )
            declared["batch_norm_eps"] = stats["bn_eps"]
        self.config = SimpleNamespace(**declared, z_dim=latents.shape[1])

    def encode(self, images: Tensor) -> Any:
        rows, self.latents = self.latents[: len(images)], self.latents[len(images) :]
        return SimpleNamespace(latents=torch.cat(rows))

    def decode(self, latents: Tensor, return_dict: bool = True) -> Any:
        self.decoded.append(latents)
        return SimpleNamespace(sample=latents) if return_dict else (latents,)


def to_model(family: str, latents: Tensor, stats: Stats) -> Tensor:
    """What a pipeline of the family makes of latents that its VAE encoded."""
    quiet_transformers()
    import diffusers

    vae, batch, dtype = Standin(latents, stats), len(latents), latents.dtype
    image = torch.zeros(batch, 3, 8, 8, dtype=dtype)
    if family == "Wan":
        standin = SimpleNamespace(
            vae=vae,
            vae_scale_factor_temporal=4,
            vae_scale_factor_spatial=8,
            config=SimpleNamespace(expand_timesteps=True),
        )
        _, found, _ = diffusers.WanImageToVideoPipeline.prepare_latents(
            standin, image, 1, 4, 8, 8, 1, dtype, torch.device("cpu")
        )
        return torch.as_tensor(found)
    if family == "CogVideoX":
        standin = SimpleNamespace(
            vae=vae,
            vae_scale_factor_temporal=4,
            vae_scale_factor_spatial=8,
            vae_scaling_factor_image=stats["scaling_factor"],
            transformer=SimpleNamespace(config=SimpleNamespace(patch_size_t=None)),
            scheduler=SimpleNamespace(init_noise_sigma=1.0),
        )
        sides = 8 * latents.shape[-2], 8 * latents.shape[-1]
        _, found = diffusers.CogVideoXImageToVideoPipeline.prepare_latents(
            standin, image, batch, latents.shape[1], 1, *sides, dtype, torch.device("cpu")
        )
        return torch.as_tensor(found).permute(0, 2, 1, 3, 4)
    if family == "LTX":
        return torch.as_tensor(
            diffusers.LTXPipeline._normalize_latents(latents, *of_channels(stats))
        )
    pipe = diffusers.Flux2Pipeline
    standin = SimpleNamespace(vae=vae, _patchify_latents=pipe._patchify_latents)
    found = torch.as_tensor(pipe._encode_vae_image(standin, image, None))
    return found if since("0.38") else found.to(dtype)  # before, the deviation was left in float32


def to_vae(family: str, latents: Tensor, stats: Stats) -> Tensor:
    """What a pipeline of the family gives its VAE to decode."""
    quiet_transformers()
    import diffusers
    from diffusers.modular_pipelines import PipelineState

    vae = Standin(latents, stats)
    if family == "LTX":
        return torch.as_tensor(
            diffusers.LTXPipeline._denormalize_latents(latents, *of_channels(stats))
        )
    if family == "Flux 2" and not since("0.37"):  # whose lines stand in the pipeline's call alone
        mean, deviation = vae.bn.running_mean, (vae.bn.running_var + stats["bn_eps"]).sqrt()
        mean, deviation = (x.reshape(1, -1, 1, 1).to(latents.dtype) for x in (mean, deviation))
        unfold = diffusers.Flux2Pipeline._unpatchify_latents
        return torch.as_tensor(unfold(latents * deviation + mean))
    if family == "CogVideoX":
        standin = SimpleNamespace(vae=vae, vae_scaling_factor_image=stats["scaling_factor"])
        given = latents.permute(0, 2, 1, 3, 4)
        return torch.as_tensor(diffusers.CogVideoXPipeline.decode_latents(standin, given))
    state = PipelineState()
    state.set("latents", latents)
    as_it_is = SimpleNamespace(
        postprocess=lambda images, output_type: images,
        postprocess_video=lambda videos, output_type: videos,
    )
    step: Any = decoding(family)
    step(SimpleNamespace(vae=vae, image_processor=as_it_is, video_processor=as_it_is), state)
    return vae.decoded[0]


def decoding(family: str) -> Any:
    """The step of a modular pipeline that decodes."""
    if family == "Wan" and since("0.37"):
        from diffusers.modular_pipelines.wan.decoders import WanVaeDecoderStep

        return WanVaeDecoderStep()
    if family == "Wan":  # as it was called before
        decoders = importlib.import_module("diffusers.modular_pipelines.wan.decoders")
        return decoders.WanImageVaeDecoderStep()
    from diffusers.modular_pipelines.flux2.decoders import Flux2DecodeStep

    return Flux2DecodeStep()


def of_channels(stats: Stats) -> tuple[Tensor, Tensor, float]:
    """Mean, standard deviation and factor, as LTX takes them."""
    mean, std = (torch.tensor(stats[name]) for name in ("latents_mean", "latents_std"))
    return mean, std, stats["scaling_factor"]


# Tiles in time


@functools.lru_cache
def hunyuan() -> Any:
    """A tiny AutoencoderKLHunyuanVideo: four times in time and in space."""
    with seeded(1):
        vae: Any = AutoencoderKLHunyuanVideo(
            latent_channels=4,
            block_out_channels=(4, 4, 4),
            down_block_types=("HunyuanVideoDownBlock3D",) * 3,
            up_block_types=("HunyuanVideoUpBlock3D",) * 3,
            layers_per_block=1,
            norm_num_groups=2,
            spatial_compression_ratio=4,
            mid_block_add_attention=False,
        )
    return frozen(vae)


def decode_whole(latents: Tensor) -> Tensor:
    """Latents through post_quant_conv and decoder, all at once."""
    vae = hunyuan()
    with plain_convolutions():
        frames: Tensor = vae.decoder(vae.post_quant_conv(latents))
    return frames


def tiled(latents: Tensor, tile: int, stride: int) -> tuple[Tensor, list[int]]:
    """A clip decoded in tiles, and how many latent frames entered the decoder, call by call."""
    vae, seen = hunyuan(), list[int]()
    vae.tile_sample_min_num_frames, vae.tile_sample_stride_num_frames = 4 * tile, 4 * stride
    hook = vae.decoder.register_forward_pre_hook(lambda _, args: seen.append(args[0].shape[2]))
    try:
        with plain_convolutions():
            frames: Tensor = vae.decode(latents).sample
    finally:
        hook.remove()
    return frames, seen


def stretched(ratio: int) -> Callable[[Tensor], Tensor]:
    """A decoder that draws straight lines between latent frames: a tile of it is the whole's."""

    def decode(latents: Tensor) -> Tensor:
        frames, *sides = latents.shape[2:]
        size = ((frames - 1) * ratio + 1, *sides)
        return F.interpolate(latents, size=size, mode="trilinear", align_corners=True)

    return decode


def pieces(lengths: Sequence[int]) -> list[slice]:
    """Slices of these lengths, one behind the other."""
    ends = [sum(lengths[: i + 1]) for i in range(len(lengths))]
    return [slice(end - length, end) for end, length in zip(ends, lengths, strict=True)]
