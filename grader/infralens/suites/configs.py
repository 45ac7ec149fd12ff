"""What diffusers makes of a config: objects, shapes, runs and folders.

Networks are built as small as they run. Where only a shape is asked for they compute all the same:
on the meta device torch's Python stands in for each operation, and takes longer.
"""

from __future__ import annotations

import functools
import inspect
import json
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import diffusers
import safetensors.torch
import torch
from diffusers.utils import logging

from infralens.examiner import quiet_transformers
from infralens.suites.networks import frozen, seeded
from infralens.suites.releases import since

logging.disable_progress_bar()
logging.set_verbosity_error()  # settings that a class does not know are this lab's subject

META = torch.device("meta")
FRAMES = 5  # of a video that is encoded: as many after the first as are ever one latent frame
PROMPT = "a cat"
DTYPE = "dtype" if since("0.40") else "torch_dtype"  # as from_pretrained calls it

Config = dict[str, Any]
Side = dict[str, Config]  # the configs of a pipeline's components


@functools.lru_cache
def class_named(name: str) -> Any:
    return getattr(diffusers, name)


@functools.lru_cache
def _parameters(name: str) -> Mapping[str, Any]:
    signature = inspect.signature(class_named(name).__init__)
    return {
        parameter.name: parameter.default
        for parameter in list(signature.parameters.values())[1:]
        if parameter.kind is not parameter.VAR_KEYWORD
    }


def parameters_of(name: str) -> dict[str, Any]:
    """The arguments of a class's constructor, with their defaults."""
    return dict(_parameters(name))


def as_file(config: Mapping[str, Any]) -> Config:
    """A config as it comes back from a file: lists for tuples."""
    read: Config = json.loads(json.dumps(config))
    return read


def saved(name: str, **fields: Any) -> Config:
    """The config of an object of this class as its file has it: every field said."""
    return as_file({"_class_name": name, **parameters_of(name), **fields})


def made(name: str, config: Mapping[str, Any], overrides: Mapping[str, Any] | None = None) -> Any:
    """The object that from_config makes; a network is the same every time."""
    with seeded(0):
        return class_named(name).from_config(dict(config), **(overrides or {}))


# How much a VAE compresses


def kl(levels: int, channels: int, **more: Any) -> Config:
    """AutoencoderKL with this many levels."""
    return saved(
        "AutoencoderKL",
        block_out_channels=(8,) * levels,
        down_block_types=("DownEncoderBlock2D",) * levels,
        up_block_types=("UpDecoderBlock2D",) * levels,
        latent_channels=channels,
        norm_num_groups=4,
        **{"scaling_factor": 0.4, "shift_factor": 0.1, **more},
    )


def dc(levels: int, channels: int) -> Config:
    """AutoencoderDC whose encoder has this many levels, and its decoder one more."""
    return saved(
        "AutoencoderDC",
        latent_channels=channels,
        attention_head_dim=4,
        encoder_block_out_channels=(8,) * levels,
        decoder_block_out_channels=(8,) * (levels + 1),
        encoder_layers_per_block=(1,) * levels,
        decoder_layers_per_block=(1,) * (levels + 1),
        encoder_qkv_multiscales=((),) * levels,
        decoder_qkv_multiscales=((),) * (levels + 1),
        encoder_out_shortcut=False,  # these want channels that divide
        decoder_in_shortcut=False,
    )


def wan(
    levels: int,
    halved: tuple[bool, ...],
    channels: int,
    patch: int | None = None,
    **declared: int,
) -> Config:
    """AutoencoderKLWan; it declares what the first of its kind had, 8 and 4, whatever it is.

    `declared` are other fields, such as factors that are true.
    """
    colors = 3 * (patch or 1) ** 2
    return saved(
        "AutoencoderKLWan",
        base_dim=4,
        dim_mult=(1,) * levels,
        temperal_downsample=halved,
        z_dim=channels,
        num_res_blocks=1,
        latents_mean=(0.0,) * channels,
        latents_std=(1.0,) * channels,
        patch_size=patch,
        in_channels=colors,
        out_channels=colors,
        **declared,
    )


def qwen(levels: int, halved: tuple[bool, ...], channels: int) -> Config:
    """AutoencoderKLQwenImage."""
    return saved(
        "AutoencoderKLQwenImage",
        base_dim=4,
        dim_mult=(1,) * levels,
        temperal_downsample=halved,
        z_dim=channels,
        num_res_blocks=1,
        latents_mean=(0.0,) * channels,
        latents_std=(1.0,) * channels,
    )


def ltx(scaling: tuple[bool, ...], patch: int, channels: int, *, mirrored: bool = True) -> Config:
    """AutoencoderKLLTXVideo with a level for each entry of `scaling`; a decoder that is no mirror
    scales at every level.
    """
    levels = len(scaling)
    return saved(
        "AutoencoderKLLTXVideo",
        latent_channels=channels,
        block_out_channels=(8,) * levels,
        down_block_types=("LTXVideoDownBlock3D",) * levels,
        decoder_block_out_channels=(8,) * levels,
        layers_per_block=(1,) * (levels + 1),
        decoder_layers_per_block=(1,) * (levels + 1),
        spatio_temporal_scaling=scaling,
        decoder_spatio_temporal_scaling=scaling if mirrored else (True,) * levels,
        decoder_inject_noise=(False,) * (levels + 1),
        downsample_type=("conv",) * levels,
        upsample_residual=(False,) * levels,
        upsample_factor=(1,) * levels,
        patch_size=patch,
    )


def cogvideox(levels: int, temporal: int, channels: int) -> Config:
    """AutoencoderKLCogVideoX."""
    return saved(
        "AutoencoderKLCogVideoX",
        block_out_channels=(8,) * levels,
        down_block_types=("CogVideoXDownBlock3D",) * levels,
        up_block_types=("CogVideoXUpBlock3D",) * levels,
        latent_channels=channels,
        layers_per_block=1,
        norm_num_groups=2,
        temporal_compression_ratio=temporal,
    )


def encoded(config: Config) -> tuple[int, int, int]:
    """What a VAE of this config compresses, by the shape that it encodes to."""
    vae = made(config["_class_name"], config).eval()
    still = config["_class_name"] in ("AutoencoderKL", "AutoencoderDC")
    height, width = 64, 96
    shape = (2, 3, height, width) if still else (1, 3, FRAMES, height, width)
    with torch.no_grad():
        out = vae.encode(torch.zeros(shape))
    latent = (out.latent if hasattr(out, "latent") else out.latent_dist.mean).shape
    if height * latent[-1] != width * latent[-2]:
        raise AssertionError(f"latents of {latent} for {shape}")
    temporal = 1 if still else (FRAMES - 1) // (latent[2] - 1)
    return height // latent[-2], temporal, latent[1]


# Pipelines


class Tokenizer:
    """Five ids for any text, as every tokenizer gives them; no vocabulary."""

    model_max_length = 5
    added_tokens_encoder: Mapping[str, int] = {}

    def __call__(self, text: Any, **_: Any) -> Any:
        ids = torch.tensor([[1, 3, 4, 5, 2]] * (1 if isinstance(text, str) else len(text)))
        return _Ids(ids)

    def tokenize(self, text: str) -> list[str]:
        return text.split()

    def batch_decode(self, ids: Any) -> list[str]:
        return [""] * len(ids)


class _Ids:
    def __init__(self, ids: torch.Tensor) -> None:
        self.input_ids, self.attention_mask = ids, torch.ones_like(ids)


def clip(hidden: int, projection: int) -> Config:
    """The config of a CLIP text encoder."""
    config: Config = (
        quiet_transformers()
        .CLIPTextConfig(
            vocab_size=8,
            hidden_size=hidden,
            projection_dim=projection,
            intermediate_size=8,
            num_hidden_layers=2,  # SDXL and SD3 take the states before the last
            num_attention_heads=2,
            max_position_embeddings=Tokenizer.model_max_length,
            bos_token_id=1,
            eos_token_id=2,
            pad_token_id=0,
        )
        .to_dict()
    )
    return as_file(config)


def t5(width: int) -> Config:
    """The config of a T5 encoder."""
    config: Config = (
        quiet_transformers()
        .T5Config(vocab_size=8, d_model=width, d_ff=8, d_kv=4, num_layers=1, num_heads=2)
        .to_dict()
    )
    return as_file(config)


def text_encoder(config: Config, projected: bool) -> Any:
    """The text encoder of a config, with its projection or without."""
    transformers = quiet_transformers()
    if config["model_type"] == "t5":
        return transformers.T5EncoderModel(transformers.T5Config(**config))
    kind = transformers.CLIPTextModelWithProjection if projected else transformers.CLIPTextModel
    return kind(transformers.CLIPTextConfig(**config))


def network(config: Config) -> Any:
    """The network of a config of diffusers."""
    return class_named(config["_class_name"]).from_config(dict(config))


DENOISERS: dict[str, Callable[..., Config]] = {
    "SD3Transformer2DModel": lambda **fields: saved(
        "SD3Transformer2DModel",
        **{
            "sample_size": 16,
            "pos_embed_max_size": 64,
            "num_layers": 1,
            "attention_head_dim": 8,
            "num_attention_heads": 2,
            "caption_projection_dim": 16,
            "joint_attention_dim": 16,
            "pooled_projection_dim": 8,
            "out_channels": None,
            **fields,
        },
    ),
    "FluxTransformer2DModel": lambda **fields: saved(
        "FluxTransformer2DModel",
        **{
            "num_layers": 1,
            "num_single_layers": 1,
            "attention_head_dim": 8,
            "num_attention_heads": 2,
            "joint_attention_dim": 16,
            "pooled_projection_dim": 8,
            "axes_dims_rope": (2, 2, 4),
            **fields,
        },
    ),
    "QwenImageTransformer2DModel": lambda **fields: saved(
        "QwenImageTransformer2DModel",
        **{
            "num_layers": 1,
            "attention_head_dim": 8,
            "num_attention_heads": 2,
            "joint_attention_dim": 16,
            "axes_dims_rope": (2, 2, 4),
            **fields,
        },
    ),
    "WanTransformer3DModel": lambda **fields: saved(
        "WanTransformer3DModel",
        **{
            "num_attention_heads": 2,
            "attention_head_dim": 12,
            "text_dim": 16,
            "freq_dim": 8,
            "ffn_dim": 8,
            "num_layers": 1,
            "rope_max_seq_len": 32,
            **fields,
        },
    ),
    "LTXVideoTransformer3DModel": lambda **fields: saved(
        "LTXVideoTransformer3DModel",
        **{
            "num_attention_heads": 2,
            "attention_head_dim": 8,
            "cross_attention_dim": 16,
            "caption_channels": 16,
            "num_layers": 1,
            **fields,
        },
    ),
    "UNet2DConditionModel": lambda **fields: saved(
        "UNet2DConditionModel",
        **{
            "sample_size": 8,
            "block_out_channels": (8, 8),
            "down_block_types": ("DownBlock2D", "CrossAttnDownBlock2D"),
            "up_block_types": ("CrossAttnUpBlock2D", "UpBlock2D"),
            "layers_per_block": 1,
            "attention_head_dim": 2,
            "norm_num_groups": 4,
            **fields,
        },
    ),
}
"""Small configs of each denoiser; `fields` are the ones that a check draws."""


def pipeline(kind: str, **parts: Any) -> Any:
    """A pipeline of this class with these parts, and None for the others; it draws no bar."""
    signature = inspect.signature(class_named(kind).__init__)
    empty = {
        name: None
        for name, parameter in signature.parameters.items()
        if name != "self" and parameter.default is parameter.empty
    }
    pipe = class_named(kind)(**{**empty, **parts})
    pipe.set_progress_bar_config(disable=True)
    return pipe


def flow() -> Any:
    return diffusers.FlowMatchEulerDiscreteScheduler(shift=3.0)


PIPELINES = {
    "SD3Transformer2DModel": "StableDiffusion3Pipeline",
    "FluxTransformer2DModel": "FluxPipeline",
    "QwenImageTransformer2DModel": "QwenImagePipeline",
    "WanTransformer3DModel": "WanPipeline",
    "LTXVideoTransformer3DModel": "LTXPipeline",
}


class _Seen(Exception):  # noqa: N818  # no error: what was looked for is here
    def __init__(self, tokens: int) -> None:
        self.tokens = tokens


def tokens(vae: Config, denoiser: Config, height: int, width: int, frames: int) -> int:
    """The length of hidden_states as they enter the first block, in a run of the pipeline."""
    kind = denoiser["_class_name"]
    with seeded(0):
        transformer = frozen(network(denoiser))
    pipe = pipeline(PIPELINES[kind], vae=shell(vae), transformer=transformer, scheduler=flow())

    def look(_: Any, args: Any, kwargs: Any) -> None:
        hidden = kwargs.get("hidden_states", args[0] if args else None)
        raise _Seen(hidden.shape[1])

    blocks = next(
        getattr(transformer, name)
        for name in ("blocks", "transformer_blocks")
        if hasattr(transformer, name)
    )
    blocks[0].register_forward_pre_hook(look, with_kwargs=True)
    text = torch.zeros(1, 3, 16)
    call: dict[str, Any] = {"prompt_embeds": text, "num_inference_steps": 1}
    if kind in ("SD3Transformer2DModel", "FluxTransformer2DModel"):
        call["pooled_prompt_embeds"] = torch.zeros(1, 8)
    elif kind in ("QwenImageTransformer2DModel", "LTXVideoTransformer3DModel"):
        call["prompt_embeds_mask" if "Qwen" in kind else "prompt_attention_mask"] = torch.ones(
            1, 3, dtype=torch.int64
        )
    if kind in ("WanTransformer3DModel", "LTXVideoTransformer3DModel"):
        call["num_frames"] = frames
    if kind != "FluxTransformer2DModel" and kind != "QwenImageTransformer2DModel":
        call["guidance_scale"] = 1.0
    try:
        with torch.no_grad():
            pipe(height=height, width=width, output_type="latent", **call)
    except _Seen as seen:
        return seen.tokens
    raise AssertionError(f"{kind} was not called")


def shell(vae: Config) -> Any:
    """A VAE that is asked for its settings only."""
    return made(vae["_class_name"], vae)


def why_not(kind: str, configs: Mapping[str, Config], output_type: str = "pt") -> str:
    """What a call of the pipeline raises, decoding included; "" when it runs."""
    parts: dict[str, Any] = {}
    with seeded(0):
        for name, config in configs.items():
            if name.startswith("text_encoder"):
                projected = kind == "StableDiffusion3Pipeline" or name == "text_encoder_2"
                parts[name] = frozen(text_encoder(config, projected))
                parts[name.replace("text_encoder", "tokenizer")] = Tokenizer()
            else:
                parts[name] = frozen(network(config))
    if "unet" in parts:
        parts["scheduler"] = diffusers.DDIMScheduler(steps_offset=1, clip_sample=False)
    else:
        parts["scheduler"] = flow()
    call: dict[str, Any] = {"num_inference_steps": 1, "height": 16, "width": 16}
    if kind == "StableDiffusionPipeline":
        parts["requires_safety_checker"] = False
    elif kind == "StableDiffusionXLPipeline":
        parts["add_watermarker"] = False
    elif kind in ("StableDiffusion3Pipeline", "FluxPipeline"):
        call["max_sequence_length"] = Tokenizer.model_max_length
    else:
        call["num_frames"], call["max_sequence_length"] = 5, Tokenizer.model_max_length
    call["prompt"] = PROMPT
    if kind == "WanImageToVideoPipeline":
        call["image"] = torch.zeros(1, 3, 16, 16)
    if kind == "WanImageToVideoPipeline" or (kind == "WanPipeline" and not since("0.37")):
        del call["prompt"]
        ids = Tokenizer()(PROMPT).input_ids  # its own way through the text needs ftfy
        call["prompt_embeds"] = parts["text_encoder"](ids).last_hidden_state
    if kind != "FluxPipeline":
        call["guidance_scale"] = 1.0
    pipe = pipeline(kind, **parts)
    try:
        with torch.no_grad():
            pipe(output_type=output_type, **call)
    except (RuntimeError, ValueError) as error:
        return f"{type(error).__name__}: {error}"
    return ""


# A folder

STEMS = {
    "unet": "diffusion_pytorch_model",
    "vae": "diffusion_pytorch_model",
    "text_encoder": "model",
}


@functools.lru_cache
def saved_pipeline() -> Mapping[str, bytes]:
    """The files of a tiny Stable Diffusion, with a tokenizer left out."""
    unet = DENOISERS["UNet2DConditionModel"](in_channels=4, out_channels=4, cross_attention_dim=16)
    with seeded(1):
        pipe = pipeline(
            "StableDiffusionPipeline",
            vae=network(kl(2, 4)),
            unet=network(unet),
            text_encoder=text_encoder(clip(16, 8), projected=False),
            scheduler=diffusers.DDIMScheduler(steps_offset=1, clip_sample=False),
            requires_safety_checker=False,
        )
    with tempfile.TemporaryDirectory(prefix="infralens-") as folder:
        pipe.save_pretrained(folder)
        paths = [path for path in Path(folder).rglob("*") if path.is_file()]
        return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


@functools.lru_cache
def other_numbers(path: str) -> bytes:
    """A file of weights with every number larger by 1: it is known by that when it was loaded."""
    state = safetensors.torch.load(saved_pipeline()[path])
    moved = {
        name: value + 1 if value.is_floating_point() else value for name, value in state.items()
    }
    data: bytes = safetensors.torch.save(moved, {"format": "pt"})
    return data


@dataclass(frozen=True)
class Folder:
    """A saved pipeline in which the components `having` have a file of this variant besides."""

    variant: str
    having: tuple[str, ...]

    def index(self) -> Config:
        """model_index.json."""
        read: Config = json.loads(saved_pipeline()["model_index.json"])
        return read

    def contents(self) -> dict[str, bytes]:
        """Every file of the folder."""
        files = dict(saved_pipeline())
        for name in self.having:
            stem = STEMS[name]
            plain = f"{name}/{stem}.safetensors"
            files[f"{name}/{stem}.{self.variant}.safetensors"] = other_numbers(plain)
        return files

    def files(self) -> dict[str, list[str]]:
        """The names in each component's folder."""
        found: dict[str, list[str]] = {}
        for path in sorted(self.contents()):
            folder, _, name = path.rpartition("/")
            if folder:
                found.setdefault(folder, []).append(name)
        return found

    def loaded(self, dtype: str | Mapping[str, str], variant: str | None) -> dict[str, Any]:
        """What from_pretrained makes of it: each part's dtype, and the file its numbers are of."""
        if isinstance(dtype, str):
            wanted: Any = getattr(torch, dtype)
        else:
            wanted = {name: getattr(torch, word) for name, word in dtype.items()}
        with tempfile.TemporaryDirectory(prefix="infralens-", ignore_cleanup_errors=True) as folder:
            for name, data in self.contents().items():
                path = Path(folder, name)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(data)
            pipe = class_named("StableDiffusionPipeline").from_pretrained(
                folder,
                **{DTYPE: wanted},
                variant=variant,
                tokenizer=None,
                low_cpu_mem_usage=False,
                local_files_only=True,
            )
        found = {}
        for name, stem in STEMS.items():
            part = getattr(pipe, name)
            plain = safetensors.torch.load(saved_pipeline()[f"{name}/{stem}.safetensors"])
            key = next(key for key in sorted(plain) if plain[key].is_floating_point())
            moved = float((part.state_dict()[key].double() - plain[key].double()).mean()) > 0.5
            ending = f"{self.variant}.safetensors" if moved else "safetensors"
            found[name] = (str(part.dtype).removeprefix("torch."), f"{stem}.{ending}")
        return found


def with_a_channel_more(kind: str) -> Side:
    """Stable Diffusion 3 or Flux whose transformer has a latent channel more than its VAE."""
    if kind == "FluxPipeline":
        widths = {"joint_attention_dim": 32, "pooled_projection_dim": 16}
        return {
            "vae": kl(2, 4),
            "transformer": DENOISERS["FluxTransformer2DModel"](in_channels=4 * 5, **widths),
            "text_encoder": clip(16, 8),
            "text_encoder_2": t5(32),
        }
    widths = {"joint_attention_dim": 64, "pooled_projection_dim": 32}
    return {
        "vae": kl(2, 4),
        "transformer": DENOISERS["SD3Transformer2DModel"](in_channels=5, **widths),
        "text_encoder": clip(16, 16),
        "text_encoder_2": clip(24, 16),
        "text_encoder_3": t5(64),
    }


def place_of_failure(kind: str) -> str:
    """What `with_a_channel_more` raises and where: its loop alone runs, and decoding does not."""
    if loop := why_not(kind, with_a_channel_more(kind), output_type="latent"):
        return f"{loop.partition(':')[0]}, in the transformer"
    whole = why_not(kind, with_a_channel_more(kind))
    return f"{whole.partition(':')[0]}, in the VAE" if whole else "nothing: it runs"
