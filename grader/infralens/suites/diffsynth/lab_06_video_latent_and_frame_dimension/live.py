"""What diffusers does along the frames of a video: sizes, folds, masks, conditions, windows.

Networks are as small as they run and built once; who may look at whom is found by moving one token
and seeing which others change.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import diffusers
import torch
from diffusers.models.attention import FreeNoiseTransformerBlock
from diffusers.models.attention_processor import Attention
from diffusers.models.transformers.transformer_wan import WanRotaryPosEmbed
from diffusers.models.unets.unet_motion_model import AnimateDiffTransformer3D
from torch import Tensor

from infralens.examiner import library_function
from infralens.suites import configs
from infralens.suites.networks import frozen, plain_convolutions, seeded

TEXT = 16  # width of text states
CHANNELS = 4  # of latents

# Sizes


@functools.lru_cache
def wan_network(patch: int, channels: int) -> Any:
    """A transformer of Wan with one block and square patches."""
    config = configs.DENOISERS["WanTransformer3DModel"](
        in_channels=channels, out_channels=channels, patch_size=(1, patch, patch)
    )
    with seeded(0):
        return frozen(configs.network(config))


@functools.lru_cache
def wan_pipeline(channels: int, temporal: int, spatial: int, patch: int) -> Any:
    """WanPipeline with a VAE that says that it compresses by so much, and does where it can."""
    levels = spatial.bit_length()
    halved = (False,) * (levels - 3) + (True, True) if levels > 2 else (True,)
    declared = {"scale_factor_temporal": temporal, "scale_factor_spatial": spatial}
    return configs.pipeline(
        "WanPipeline",
        vae=configs.shell(configs.wan(levels, halved, channels, **declared)),
        transformer=wan_network(patch, channels),
        scheduler=configs.flow(),
    )


def made(config: dict[str, int], batch: int, frames: int, height: int, width: int) -> Any:
    """What WanPipeline makes of a request: the shape of its latents, and its tokens."""
    pipe = wan_pipeline(config["channels"], config["temporal"], config["spatial"], config["patch"])
    tokens: list[int] = []
    hook = pipe.transformer.blocks[0].register_forward_pre_hook(
        lambda _, given: tokens.append(given[0].shape[1])
    )
    try:
        with torch.no_grad():
            latents = pipe(
                prompt_embeds=torch.zeros(batch, 3, TEXT),
                num_frames=frames,
                height=height,
                width=width,
                num_inference_steps=1,
                guidance_scale=1.0,
                output_type="latent",
            ).frames
    finally:
        hook.remove()
    return {"latents": list(latents.shape), "tokens": tokens[0]}


@functools.lru_cache
def video_vae(temporal: int) -> Any:
    """A video VAE that really compresses time by this ratio."""
    halved = temporal.bit_length() - 1
    config = (
        configs.wan(3, (True, True), CHANNELS)
        if temporal == 4
        else configs.ltx((True,) * halved + (False,), 4, CHANNELS)
    )
    return configs.made(config["_class_name"], config).eval()


@functools.lru_cache
def decoded(temporal: int, latent: int) -> int:
    """To how many frames such a VAE decodes so many latent frames."""
    z = torch.zeros(1, CHANNELS, latent, 2, 2)
    with torch.no_grad():
        return int(video_vae(temporal).decode(z).sample.shape[2])


# Folds


class Watching(torch.nn.Module):
    """Hands on what it is given and keeps it; with something to say instead, says that."""

    def __init__(self, instead: Tensor | None = None) -> None:
        super().__init__()
        self.seen: list[Tensor] = []
        self.instead = instead

    def forward(self, input: Tensor) -> Tensor:  # the library passes it by name
        self.seen.append(input)
        return input if self.instead is None else self.instead


@functools.lru_cache
def _motion(channels: int) -> Any:
    module = AnimateDiffTransformer3D(1, channels, channels, num_layers=0, norm_num_groups=1)
    module.norm = torch.nn.Identity()
    return module


def temporal_rows(frames_in_batch: Tensor, frames: int) -> Tensor:
    """(B·F, C, H, W) as AnimateDiff's temporal layer sees it: (B·H·W, F, C)."""
    module = _motion(frames_in_batch.shape[1])
    module.proj_in, module.proj_out = watching, _ = Watching(), Watching()
    module(frames_in_batch, num_frames=frames)
    rows: Tensor = watching.seen[0]
    return rows


def rows_in_batch(rows: Tensor, batch: int, height: int, width: int) -> Tensor:
    """(B·H·W, F, C) as AnimateDiff's temporal layer gives it back: (B·F, C, H, W)."""
    _, frames, channels = rows.shape
    module = _motion(channels)
    module.proj_in, module.proj_out = Watching(), Watching(rows)
    nothing = rows.new_zeros(batch * frames, channels, height, width)
    folded: Tensor = module(nothing, num_frames=frames)
    return folded


def video_of(frames_in_batch: Tensor, batch: int) -> Tensor:
    """(B·F, C, H, W) as AnimateDiff's temporal layer has it before it folds: (B, C, F, H, W)."""
    module = _motion(frames_in_batch.shape[1])
    watching = Watching()
    before, module.norm = module.norm, watching
    module.proj_in, module.proj_out = Watching(), Watching()
    try:
        module(frames_in_batch, num_frames=len(frames_in_batch) // batch)
    finally:
        module.norm = before
    return watching.seen[0]


# Who looks at whom


def _looked_at(layer: Callable[[Tensor], Tensor], video: Tensor) -> Tensor:
    """(N, N) bool: whether token `row` changes when token `column` is moved, in one video."""
    channels = video.shape[1]
    n = video[0, 0].numel()
    moved = video.expand(n + 1, *video.shape[1:]).clone()
    flat = moved.flatten(2)  # a view: the last row stays as it was
    flat[torch.arange(n), :, torch.arange(n)] += 1.0 + torch.arange(float(channels))
    with torch.no_grad():
        out = layer(moved).flatten(2)
    return ((out[:n] - out[n:]).abs().amax(1) > 1e-6).T


@functools.lru_cache
def _block() -> Any:
    with seeded(2):
        return frozen(Attention(CHANNELS * 2, heads=2, dim_head=4))


def _full(video: Tensor) -> Tensor:
    out: Tensor = _block()(video.flatten(2).mT).mT
    return out.reshape(video.shape)


def _spatial(video: Tensor) -> Tensor:
    """Attention in each frame: as a UNet has it, with the frames in its batch."""
    batch, _, frames, height, width = video.shape
    folded = video.transpose(1, 2).flatten(0, 1)
    out: Tensor = _block()(folded.flatten(2).mT).mT
    return out.reshape(batch, frames, -1, height, width).transpose(1, 2)


@functools.lru_cache
def _temporal_layer() -> Any:
    with seeded(3):
        return frozen(
            AnimateDiffTransformer3D(
                2, 4, CHANNELS * 2, norm_num_groups=1, cross_attention_dim=None, num_layers=1
            )
        )


def _temporal(video: Tensor) -> Tensor:
    """AnimateDiff's temporal layer. Its norm looks at the whole video, so it is left out."""
    batch, _, frames = video.shape[:3]
    layer = _temporal_layer()
    layer.norm = torch.nn.Identity()
    out: Tensor = layer(video.transpose(1, 2).flatten(0, 1), num_frames=frames)
    return out.reshape(batch, frames, *out.shape[1:]).transpose(1, 2)


@functools.lru_cache
def _skyreels(block: int) -> Any:
    """SkyReels-V2 with one block of layers, and frames in blocks of so many."""
    with seeded(4):
        return frozen(
            diffusers.SkyReelsV2Transformer3DModel(
                patch_size=(1, 1, 1),
                num_attention_heads=2,
                attention_head_dim=12,
                in_channels=CHANNELS * 2,
                out_channels=CHANNELS * 2,
                text_dim=8,
                freq_dim=8,
                ffn_dim=8,
                num_layers=1,
                rope_max_seq_len=16,
                num_frame_per_block=block,
            )
        )


def looked_at(kind: str, frames: int, height: int, width: int, block: int) -> Tensor:
    """Who looks at whom in a layer of diffusers of this kind."""
    if kind == "causal" and block == 1:
        mask: Tensor = library_function(
            "models/autoencoders/autoencoder_kl_hunyuan_video.py", "prepare_causal_attention_mask"
        )(frames, height * width, torch.float32, torch.device("cpu"))
        return mask == 0
    with seeded(5):
        video = torch.randn(1, CHANNELS * 2, frames, height, width)

    def through_skyreels(moved: Tensor) -> Tensor:
        count = len(moved)
        out: Tensor = _skyreels(block)(
            moved, torch.full((count,), 500.0), torch.zeros(count, 1, 8)
        ).sample
        return out

    layers: dict[str, Callable[[Tensor], Tensor]] = {
        "full": _full,
        "spatial": _spatial,
        "temporal": _temporal,
        "causal": through_skyreels,
    }
    return _looked_at(layers[kind], video)


# Positions


def wan_tables(
    frames: int, height: int, width: int, head: int, theta: float, start: int
) -> tuple[Tensor, Tensor]:
    """cos and sin of WanRotaryPosEmbed for a window of a longer clip, (N, head) each."""
    rope = WanRotaryPosEmbed(head, (1, 2, 2), 64, theta)
    whole = torch.empty(1, 1, start + frames, 2 * height, 2 * width)
    cos, sin = (table[0, start * height * width :, 0] for table in rope(whole))
    return cos, sin


# A picture as a condition


@dataclass(frozen=True)
class ImageToVideo:
    """WanImageToVideoPipeline with a VAE that really compresses, and says so."""

    pipe: Any

    @property
    def ratio(self) -> int:
        return int(self.pipe.vae_scale_factor_temporal)

    @property
    def spatial(self) -> int:
        return int(self.pipe.vae_scale_factor_spatial)

    @property
    def constants(self) -> tuple[list[float], list[float]]:
        """The mean and the deviation of each channel, as the config has them."""
        config = self.pipe.vae.config
        return list(config.latents_mean), list(config.latents_std)

    def encode(self, video: Tensor) -> Tensor:
        with torch.no_grad(), plain_convolutions():
            latents: Tensor = self.pipe.vae.encode(video).latent_dist.mode()
        return latents

    def condition(self, first: Tensor, last: Tensor | None, frames: int) -> Tensor:
        """What the pipeline shows its transformer beside the noise, video by video."""
        height, width = first.shape[-2:]
        parts = []
        for row in range(len(first)):
            with torch.no_grad(), plain_convolutions():
                _, condition = self.pipe.prepare_latents(
                    first[row : row + 1],
                    1,
                    CHANNELS,
                    height,
                    width,
                    frames,
                    torch.float32,
                    torch.device("cpu"),
                    last_image=None if last is None else last[row : row + 1],
                )
            parts.append(condition)
        return torch.cat(parts)


MEAN, STD = (0.5, -1.0, 0.25, 0.1), (2.0, 0.5, 3.0, 0.25)


class Pooling(torch.nn.Module):
    """A VAE in two lines, for ratios that no VAE of diffusers encodes by: means of blocks."""

    dtype = torch.float32

    def __init__(self, temporal: int, spatial: int) -> None:
        super().__init__()
        self.config = SimpleNamespace(
            latents_mean=list(MEAN),
            latents_std=list(STD),
            z_dim=CHANNELS,
            scale_factor_temporal=temporal,
            scale_factor_spatial=spatial,
        )
        self.register_buffer("anywhere", torch.zeros(1))  # tells the pipeline its device

    def encode(self, video: Tensor) -> Any:
        config = self.config
        first = video[:, :, :1].expand(-1, -1, config.scale_factor_temporal - 1, -1, -1)
        sides = (config.scale_factor_temporal, *[config.scale_factor_spatial] * 2)
        z = torch.nn.functional.avg_pool3d(torch.cat([first, video], 2), sides)
        z = torch.cat([z, z.mean(1, keepdim=True)], dim=1)
        return SimpleNamespace(latent_dist=SimpleNamespace(mode=lambda: z))


@functools.lru_cache
def image_to_video(temporal: int) -> ImageToVideo:
    """The pipeline at this ratio: 4 with Wan's VAE, others with means of blocks."""
    if temporal == 4:
        config = configs.wan(
            3, (True, True), CHANNELS, scale_factor_temporal=4, scale_factor_spatial=4
        )
        with seeded(6):
            vae = frozen(configs.network({**config, "latents_mean": MEAN, "latents_std": STD}))
    else:
        vae = Pooling(temporal, 4)
    return ImageToVideo(
        configs.pipeline(
            "WanImageToVideoPipeline",
            vae=vae,
            transformer=wan_network(1, CHANNELS),
            scheduler=configs.flow(),
        )
    )


# The loop with a picture in frame 0

SIDE = 16  # pixels of a latent pixel
RATIO = 4  # frames of a latent frame


@functools.lru_cache
def ltx_pipeline() -> Any:
    """LTXImageToVideoPipeline whose conditions show in what its transformer says."""
    with seeded(7):
        transformer = frozen(
            configs.network(
                configs.DENOISERS["LTXVideoTransformer3DModel"](
                    in_channels=CHANNELS, out_channels=CHANNELS
                )
            )
        )
    for parameter in transformer.parameters():
        if parameter.ndim > 1:
            parameter.mul_(3)
    vae = configs.ltx((True, True, False, False), 4, CHANNELS)
    return configs.pipeline(
        "LTXImageToVideoPipeline",
        vae=configs.shell(vae),
        transformer=transformer,
        scheduler=configs.flow(),
    )


@dataclass
class Run:
    """What a run gave its transformer, (x, t) as a learner's denoiser has them, and its end."""

    calls: list[tuple[Any, ...]] = field(default_factory=list)
    latents: Any = None


@dataclass(frozen=True)
class FirstFrame:
    """A run of LTXImageToVideoPipeline from given noise, with a picture in frame 0."""

    noise: Tensor  # (B, C, F, h, w)
    first: Tensor  # (B, C, 1, h, w)
    text: Tensor
    steps: int

    def _call(self, pack: Callable[[Tensor], Tensor]) -> dict[str, Any]:
        frames, height, width = self.noise.shape[2:]
        return {
            "latents": pack(torch.cat([self.first, self.noise[:, :, 1:]], dim=2)),
            "num_frames": RATIO * (frames - 1) + 1,
            "height": SIDE * height,
            "width": SIDE * width,
            "prompt_embeds": self.text,
            "prompt_attention_mask": torch.ones(self.text.shape[:2]),
            "num_inference_steps": self.steps,
            "guidance_scale": 1.0,
            "output_type": "latent",
        }

    def scheduler(self) -> Any:
        """A scheduler whose timesteps are those of the pipeline's run."""
        own = type(ltx_pipeline().scheduler).from_config(ltx_pipeline().scheduler.config)
        own.set_timesteps(sigmas=[1 - i / self.steps for i in range(self.steps)])
        return own

    def denoiser(self, x: Tensor, t: Tensor) -> Tensor:
        """The pipeline's transformer as a function of (x, t), t for each frame."""
        batch, _, frames, height, width = self.noise.shape
        if x.shape != self.noise.shape or t.shape != (batch, frames):
            raise ValueError(
                f"x {tuple(x.shape)} and t {tuple(t.shape)}, "
                f"expected {tuple(self.noise.shape)} and {(batch, frames)}"
            )
        pipe = ltx_pipeline()
        with torch.no_grad():
            tokens = pipe.transformer(
                hidden_states=x.flatten(2).mT,
                encoder_hidden_states=self.text,
                timestep=t.repeat_interleave(height * width, dim=1),
                encoder_attention_mask=torch.ones(self.text.shape[:2]),
                num_frames=frames,
                height=height,
                width=width,
                rope_interpolation_scale=(RATIO / 25, SIDE, SIDE),
                return_dict=False,
            )[0]
        answer: Tensor = tokens.mT.unflatten(2, (frames, height, width)).contiguous()
        return answer

    def run(self) -> Run:
        """The pipeline's own run."""
        pipe, run = ltx_pipeline(), Run()
        frames, height, width = self.noise.shape[2:]

        def note(_: Any, __: Any, kwargs: dict[str, Any]) -> None:
            x = kwargs["hidden_states"].mT.unflatten(2, (frames, height, width))
            run.calls.append((x, kwargs["timestep"][:, :: height * width]))

        hook = pipe.transformer.register_forward_pre_hook(note, with_kwargs=True)
        try:
            tokens = pipe(**self._call(lambda x: x.flatten(2).mT)).frames
        finally:
            hook.remove()
        run.latents = tokens.mT.unflatten(2, (frames, height, width))
        return run


# Windows


@functools.lru_cache
def _free_noise() -> Any:
    """FreeNoise's block with self-attention and places in its windows, and nothing else."""
    with seeded(8):
        block = FreeNoiseTransformerBlock(
            8, 2, 4, positional_embeddings="sinusoidal", num_positional_embeddings=32
        )
    block.attn2 = None
    block.ff.net[2].weight.data.zero_()
    block.ff.net[2].bias.data.zero_()
    return frozen(block)


def layer(x: Tensor) -> Tensor:
    """What that block does in one window."""
    block = _free_noise()
    with torch.no_grad():
        out: Tensor = block.attn1(block.pos_embed(block.norm1(x))) + x
    return out


def blended(hidden: Tensor, length: int, stride: int, scheme: str) -> Tensor:
    """FreeNoise's block on a clip longer than its windows."""
    block = _free_noise()
    block.set_free_noise_properties(length, stride, scheme)
    with torch.no_grad():
        out: Tensor = block(hidden)
    return out


def free_noise_windows(frames: int, length: int, stride: int) -> list[tuple[int, int]]:
    """The windows that enter the attention of FreeNoise's block, found by numbered frames."""
    block, seen = _free_noise(), []
    block.set_free_noise_properties(length, stride, "flat")
    before, block.norm1 = block.norm1, Watching()
    watching = block.norm1
    numbered = torch.arange(float(frames))[None, :, None].expand(1, frames, 8)
    try:
        with torch.no_grad():
            block(numbered)
    finally:
        block.norm1 = before
    for window in watching.seen:
        seen.append((int(window[0, 0, 0]), int(window[0, -1, 0]) + 1))
    return seen
