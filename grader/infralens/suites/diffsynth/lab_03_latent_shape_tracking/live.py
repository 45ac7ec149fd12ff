"""What diffusers does with the five axes of a video: shapes, layouts, tokens, positions, batches.

Video VAEs encode and decode tiny clips: on the meta device, which computes nothing, one convolution
takes longer.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import accumulate, pairwise
from types import SimpleNamespace
from typing import Any

import torch
from diffusers.models.transformers.transformer_qwenimage import QwenEmbedRope
from diffusers.models.transformers.transformer_wan import WanRotaryPosEmbed
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from infralens.examiner import library_function
from infralens.suites import configs
from infralens.suites.networks import frozen, seeded

META = configs.META
TEXT = 16  # width of text states
Pairs = list[tuple[int, int]]

# Frames


@functools.lru_cache
def video_vae(kind: str, ratio: int) -> Any:
    """A video VAE that compresses time by this ratio."""
    halved = ratio.bit_length() - 1
    config = {
        "wan": lambda: configs.wan(3, (False,) * (2 - halved) + (True,) * halved, 4),
        "ltx": lambda: configs.ltx((True,) * halved + (False,), 4, 4),
        "cogvideox": lambda: configs.cogvideox(3, ratio, 4),
    }[kind]()
    return frozen(configs.made(config["_class_name"], config))


def encoded(vae: Any, frames: int) -> int:
    """To how many latent frames a VAE encodes so many frames."""
    with torch.no_grad():
        mean = vae.encode(torch.zeros(1, 3, frames, 32, 32)).latent_dist.mean
    return int(mean.shape[2])


def decoded(vae: Any, latent: int) -> int:
    """To how many frames it decodes so many latent frames."""
    with torch.no_grad():
        sample = vae.decode(torch.zeros(1, 4, latent, 2, 2)).sample
    return int(sample.shape[2])


@functools.lru_cache
def wan_network() -> Any:
    """A transformer of Wan with one block."""
    with seeded(0):
        config = configs.DENOISERS["WanTransformer3DModel"](in_channels=4, out_channels=4)
        return frozen(configs.network(config))


@functools.lru_cache
def wan_pipeline(ratio: int) -> Any:
    """WanPipeline with a VAE that says that it compresses time by this ratio."""
    vae = configs.wan(4, (False, True, True), 4, scale_factor_temporal=ratio)
    return configs.pipeline(
        "WanPipeline",
        vae=configs.shell(vae),
        transformer=wan_network(),
        scheduler=configs.flow(),
    )


def made_frames(frames: int, ratio: int) -> int:
    """How many latent frames the pipeline makes when it is asked for so many frames."""
    with torch.no_grad():
        latents = wan_pipeline(ratio)(
            prompt_embeds=torch.zeros(1, 3, TEXT),
            num_frames=frames,
            height=16,
            width=16,
            num_inference_steps=1,
            guidance_scale=1.0,
            output_type="latent",
        )
    return int(latents.frames.shape[2])


# Layouts


class Recorder:
    """A VAE that keeps what it is given to decode, and gives back the same or `answer`."""

    def __init__(self, answer: Tensor | None = None) -> None:
        self.config, self.given, self.answer = SimpleNamespace(scaling_factor=1.0), [], answer
        self.begun = 0

    given: list[Tensor]

    def decode(self, latents: Tensor) -> Any:
        self.given.append(latents)
        if self.answer is None:
            return SimpleNamespace(sample=latents)
        begin, self.begun = self.begun, self.begun + len(latents)
        return SimpleNamespace(sample=self.answer[begin : self.begun])


def through_animatediff(
    latents: Tensor, size: int = 16, answer: Tensor | None = None
) -> tuple[list[Tensor], Tensor]:
    """What AnimateDiffPipeline gives its VAE of "bcfhw", and what it makes of the frames."""
    decode = library_function(
        "pipelines/animatediff/pipeline_animatediff.py", "AnimateDiffPipeline.decode_latents"
    )
    vae = Recorder(answer)
    video = decode(SimpleNamespace(vae=vae), latents, size)
    return vae.given, video


def through_cogvideox(latents: Tensor) -> Tensor:
    """ "bfchw" as CogVideoXPipeline gives it to its VAE; and, as it exchanges two axes, back."""
    decode = library_function(
        "pipelines/cogvideo/pipeline_cogvideox.py", "CogVideoXPipeline.decode_latents"
    )
    moved: Tensor = decode(SimpleNamespace(vae=Recorder(), vae_scaling_factor_image=1.0), latents)
    return moved


def relaid(latents: Tensor, source: str, target: str, batch: int) -> Tensor:
    """The latents in another layout, by what these two pipelines do."""
    video = latents
    if source == "bfchw":
        video = through_cogvideox(latents)
    elif source == "(bf)chw":
        frames, *sides = latents.shape
        empty = torch.zeros(batch, sides[0], frames // batch, *sides[1:])
        _, video = through_animatediff(empty, answer=latents)
    if target == "bfchw":
        return through_cogvideox(video)
    return torch.cat(through_animatediff(video)[0]) if target == "(bf)chw" else video


# Tokens


def ltx_packed(latents: Tensor, patch: Sequence[int]) -> Tensor:
    """Tokens as LTXPipeline packs them; its patches are square."""
    pack = library_function("pipelines/ltx/pipeline_ltx.py", "LTXPipeline._pack_latents")
    tokens: Tensor = pack(latents, patch[1], patch[0])
    return tokens


def ltx_unpacked(tokens: Tensor, patch: Sequence[int], grid: Sequence[int]) -> Tensor:
    """Latents as LTXPipeline unpacks them."""
    unpack = library_function("pipelines/ltx/pipeline_ltx.py", "LTXPipeline._unpack_latents")
    latents: Tensor = unpack(tokens, *grid, patch[1], patch[0])
    return latents


@functools.lru_cache
def patching_wan(patch: tuple[int, int, int]) -> Any:
    """A Wan whose patch embedding hands the numbers of a patch on as they are."""
    config = configs.DENOISERS["WanTransformer3DModel"](
        in_channels=3, out_channels=3, patch_size=patch, attention_head_dim=24
    )
    with seeded(0):
        network = frozen(configs.network(config))
    weight, bias = network.patch_embedding.weight, network.patch_embedding.bias
    weight.copy_(torch.eye(*weight.flatten(1).shape).reshape(weight.shape))
    bias.zero_()
    return network


def wan_patches(latents: Tensor, patch: tuple[int, int, int]) -> Tensor:
    """Tokens in the order of the weight of Wan's patch embedding."""
    embedding = patching_wan(patch).patch_embedding
    features = embedding.weight.flatten(1).shape[1]
    tokens: Tensor = embedding(latents).flatten(2).transpose(1, 2)[..., :features]
    return tokens


def wan_output(latents: Tensor, patch: tuple[int, int, int]) -> tuple[Tensor, Tensor]:
    """What Wan's last layer says of each token, and what the network makes of it."""
    network, seen = patching_wan(patch), []
    hook = network.proj_out.register_forward_hook(lambda *given: seen.append(given[-1]))
    count = len(latents)
    try:
        with torch.no_grad():
            sample = network(
                latents, torch.full((count,), 500.0), torch.zeros(count, 3, TEXT)
            ).sample
    finally:
        hook.remove()
    return seen[0], sample


# Positions

TEXT_OF_QWEN: dict[str, Any] = (
    {"max_txt_seq_len": 1}
    if "max_txt_seq_len" in inspect.signature(QwenEmbedRope.forward).parameters
    else {"txt_seq_lens": [1], "device": torch.device("cpu")}  # an older diffusers
)
CIRCLE = 10_000.0  # with axes of four features the second pair turns by a hundredth a position


def wan_tables(frames: int, height: int, width: int, head: int, theta: float) -> Any:
    """cos and sin of WanRotaryPosEmbed for a grid, (N, D) each."""
    rope = WanRotaryPosEmbed(head, (1, 1, 1), 64, theta)
    return tuple(table[0, :, 0] for table in rope(torch.empty(1, 1, frames, height, width)))


@functools.lru_cache
def _qwen(axes: tuple[int, ...], theta: float) -> Any:
    return QwenEmbedRope(theta, list(axes), scale_rope=True)


def qwen_tables(
    frames: int, height: int, width: int, axes: Sequence[int], theta: float
) -> tuple[Tensor, Tensor]:
    """The same of QwenEmbedRope, whose numbers are complex and whose grid is centred."""
    rope, grid = _qwen(tuple(axes), theta), [(frames, height, width)]
    turns, _ = rope(grid, **TEXT_OF_QWEN)
    return turns.real.repeat_interleave(2, dim=1), turns.imag.repeat_interleave(2, dim=1)


def positions(frames: int, height: int, width: int, centred: bool) -> Tensor:
    """The ids of a grid, by how far the library turns the slow pair of each axis."""
    if centred:
        cos, sin = qwen_tables(frames, height, width, (4, 4, 4), CIRCLE)
    else:
        cos, sin = wan_tables(frames, height, width, 12, CIRCLE)
    return (torch.atan2(sin, cos)[:, 3::4] * 100).round().long()


# Batches


@contextmanager
def lengths_into(module: Any) -> Iterator[list[int]]:
    """How many frames enter a module at each call."""
    seen: list[int] = []
    hook = module.register_forward_pre_hook(lambda _, given: seen.append(given[0].shape[2]))
    try:
        yield seen
    finally:
        hook.remove()


def pairs(lengths: Sequence[int]) -> Pairs:
    return list(pairwise(accumulate(lengths, initial=0)))


def cogvideox_batches(frames: int, size: int) -> Pairs:
    """How AutoencoderKLCogVideoX cuts a clip; by 8 when it encodes, by 2 when it decodes."""
    vae = video_vae("cogvideox", 4)
    encodes = size == vae.num_sample_frames_batch_size
    if not encodes and size != vae.num_latent_frames_batch_size:
        raise AssertionError(f"AutoencoderKLCogVideoX does not cut by {size}")
    with lengths_into(vae.encoder if encodes else vae.decoder) as seen:
        (encoded if encodes else decoded)(vae, frames)
    return pairs(seen)


def wan_batches(frames: int) -> Pairs:
    """How AutoencoderKLWan cuts a clip when it encodes: always by 4."""
    vae = video_vae("wan", 4)
    with lengths_into(vae.encoder) as seen:
        encoded(vae, frames)
    return pairs(seen)


def animatediff_batches(frames: int, size: int) -> Pairs:
    """How AnimateDiffPipeline cuts a clip for its VAE."""
    given, _ = through_animatediff(torch.zeros(1, 1, frames, 1, 1), size)
    return pairs([len(part) for part in given])


# Cost

PARTS = {"self": "attn1", "cross": "attn2", "ffn": "ffn"}


def counted(
    config: configs.Config, batch: int, grid: tuple[int, int, int], text: int
) -> dict[str, int]:
    """Operations in the blocks of a live Wan, as torch counts them; the kernel of plain matrix
    products, since torch does not see into some others.
    """
    with META:
        network = configs.network(config).eval()
    frames, height, width = (n * p for n, p in zip(grid, config["patch_size"], strict=True))
    with torch.no_grad(), sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        network(
            torch.empty(batch, config["in_channels"], frames, height, width, device=META),
            torch.empty(batch, device=META),
            torch.empty(batch, text, config["text_dim"], device=META),
        )
    found = dict.fromkeys(PARTS, 0)
    for name, operations in counter.get_flop_counts().items():
        for part, module in PARTS.items():
            if name.startswith("WanTransformer3DModel.blocks.") and name.endswith(f".{module}"):
                found[part] += sum(operations.values())
    return found


def wan_config(**fields: Any) -> configs.Config:
    """A small Wan, but for these fields."""
    return configs.DENOISERS["WanTransformer3DModel"](
        **{"in_channels": 4, "out_channels": 4, **fields}
    )
