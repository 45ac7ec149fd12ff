"""A Stable Diffusion small enough to be saved, loaded and run inside a check.

The files of its folder are kept as bytes and are the truth: the learner's side and the reference
each load from a folder of their own. Weights are random and new in every case: a mistake shows in
numbers, not in pictures.
"""

from __future__ import annotations

import functools
import json
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import diffusers
import safetensors.torch
import torch

from infralens.examiner import Draw, quiet_transformers
from infralens.suites.networks import seeded
from infralens.suites.pipelines import pipeline_of
from infralens.suites.releases import since

Files = dict[str, bytes]

MAX_TOKENS = 12  # where CLIP has 77: the beginning, ten tokens of text, the end
WORDS = (
    *("a", "the", "cat", "dog", "red", "blue", "house", "tree", "small", "large", "photo", "of"),
    *("in", "on", "with", "river", "bird", "night", "old", "green"),
)  # one token each
SPELLED = ("zebra", "jumps", "fox", "quick", "wave")  # several tokens each
START, END = "<|startoftext|>", "<|endoftext|>"
# As Stable Diffusion's, in a tenth of the training steps: a run along all of them is still short.
TABLE: dict[str, Any] = {
    "num_train_timesteps": 100,
    "beta_start": 0.0085,
    "beta_end": 0.12,
    "beta_schedule": "scaled_linear",
    "steps_offset": 1,
    "clip_sample": False,
    "set_alpha_to_one": False,
    "skip_prk_steps": True,
}


@functools.lru_cache
def words_to_tokens() -> tuple[dict[str, int], list[tuple[str, str]]]:
    """A vocabulary of letters and `WORDS`, and the merges that lead to them."""
    letters = [chr(ord("a") + i) for i in range(26)]
    tokens, merges = [*letters, *(letter + "</w>" for letter in letters), ",</w>"], []
    for word in WORDS:
        whole, *others = *word[:-1], word[-1] + "</w>"
        for part in others:
            if (whole, part) not in merges:
                merges.append((whole, part))
                tokens.append(whole + part)
            whole += part
    return {token: i for i, token in enumerate([*tokens, START, END])}, merges


@functools.lru_cache
def tokenizer() -> Any:
    """The CLIPTokenizer of the folder."""
    vocabulary, merges = words_to_tokens()
    kind = quiet_transformers().CLIPTokenizer
    return kind(vocab=vocabulary, merges=merges, model_max_length=MAX_TOKENS)


def text_encoder() -> Any:
    """A CLIPTextModel of two layers: ids (P, 12) to embeddings (P, 12, 24)."""
    vocabulary, _ = words_to_tokens()
    transformers = quiet_transformers()
    config = transformers.CLIPTextConfig(
        vocab_size=len(vocabulary),
        hidden_size=24,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        max_position_embeddings=MAX_TOKENS,
        bos_token_id=vocabulary[START],
        eos_token_id=vocabulary[END],
        pad_token_id=vocabulary[END],
    )
    return transformers.CLIPTextModel(config)


def unet() -> Any:
    """UNet2DConditionModel: one level, and one attention to the text, in the middle."""
    return diffusers.UNet2DConditionModel(
        sample_size=8,
        in_channels=4,
        out_channels=4,
        block_out_channels=(16,),
        layers_per_block=1,
        down_block_types=("DownBlock2D",),
        up_block_types=("UpBlock2D",),
        cross_attention_dim=24,
        attention_head_dim=4,  # the number of heads
        norm_num_groups=8,
    )


def vae() -> Any:
    """AutoencoderKL: images (B, 3, 2H, 2W), latents (B, 4, H, W)."""
    return diffusers.AutoencoderKL(
        block_out_channels=(8, 16),
        down_block_types=("DownEncoderBlock2D",) * 2,
        up_block_types=("UpDecoderBlock2D",) * 2,
        latent_channels=4,
        norm_num_groups=4,
        scaling_factor=0.4,
    )


@functools.lru_cache
def saved() -> Mapping[str, bytes]:
    """The files of the folder as StableDiffusionPipeline.save_pretrained writes them."""
    with seeded(6):
        pipe = pipeline_of(
            "StableDiffusionPipeline",
            vae=vae(),
            text_encoder=text_encoder(),
            tokenizer=tokenizer(),
            unet=unet(),
            scheduler=scheduler("PNDMScheduler"),
        )
    with tempfile.TemporaryDirectory(prefix="infralens-") as folder:
        pipe.save_pretrained(folder)
        paths = [path for path in Path(folder).rglob("*") if path.is_file()]
        return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


def scheduler(name: str, **config: Any) -> Any:
    """A scheduler as one that was saved and loaded; `config` changes fields of `TABLE`."""
    return getattr(diffusers, name).from_config({**TABLE, **config})


def saved_config(scheduler: Any) -> dict[str, Any]:
    """The configuration of a scheduler as its file has it: every field, the defaults as well."""
    config: dict[str, Any] = json.loads(scheduler.to_json_string())
    return config


def drawn_table(draw: Draw, **config: Any) -> dict[str, Any]:
    """Fields of a scheduler's configuration, with another noise schedule each time."""
    ends = {"beta_start": draw.uniform(0.006, 0.011), "beta_end": draw.uniform(0.1, 0.14)}
    return {**ends, **config}


# Larger than a fresh network's, so that the text and each other part shows in the pixels.
STRENGTHENED = {
    "attn2.to_out.0.weight": 12.0,
    "attn2.to_v.weight": 4.0,
    "conv_out.weight": 4.0,
}


@functools.lru_cache
def weights() -> dict[str, tuple[bytes, torch.Tensor]]:
    """Each file of weights, strengthened: its header, and the float32 numbers behind that."""
    found = {}
    for path, data in saved().items():
        if path.endswith(".safetensors"):
            state = safetensors.torch.load(data)
            for name in state:
                state[name] *= next((s for end, s in STRENGTHENED.items() if name.endswith(end)), 1)
            data = safetensors.torch.save(state, {"format": "pt"})
            begin = 8 + int.from_bytes(data[:8], "little")
            numbers = torch.frombuffer(bytearray(data[begin:]), dtype=torch.float32)
            found[path] = data[:begin], numbers
    return found


ALL = ("vae", "unet", "text_encoder", "tokenizer")


def drawn_files(draw: Draw, scheduler: Any, names: Sequence[str] = ALL) -> Files:
    """A folder with this scheduler and these components, whose weights are others each time."""
    files = {path: data for path, data in saved().items() if path.split("/")[0] in names}
    for path, (header, numbers) in weights().items():
        if path in files:
            new = numbers * (1 + 0.2 * draw.latents(len(numbers)).cpu())
            files[path] = header + new.numpy().tobytes()
    files["scheduler/scheduler_config.json"] = json.dumps(saved_config(scheduler)).encode()
    index = json.loads(saved()["model_index.json"])
    for name in set(ALL) - set(names):
        del index[name]
    index["scheduler"][1] = type(scheduler).__name__
    files["model_index.json"] = json.dumps(index, indent=2).encode()
    return files


@contextmanager
def written(files: Mapping[str, bytes]) -> Iterator[str]:
    """A folder with these files, for the reference alone."""
    with tempfile.TemporaryDirectory(prefix="infralens-", ignore_cleanup_errors=True) as folder:
        for name, data in files.items():
            path = Path(folder, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        yield folder


def pipeline(files: Files, device: str, dtype: torch.dtype = torch.float32) -> Any:
    """StableDiffusionPipeline.from_pretrained of a folder with these files."""
    quiet_transformers()
    from diffusers import StableDiffusionPipeline

    left_out = dict.fromkeys(set(ALL) - set(json.loads(files["model_index.json"])))
    # Before 0.40 a `dtype` is dropped with no more than a warning; since then `torch_dtype` is old.
    asked = {"dtype" if since("0.40") else "torch_dtype": dtype}
    with written(files) as folder:
        pipe = StableDiffusionPipeline.from_pretrained(folder, **asked, **left_out)
    pipe.set_progress_bar_config(disable=True)
    return pipe.to(device, silence_dtype_warnings=True)
