"""What the libraries load: files, folders, states in old names, and modules filled from meta."""

from __future__ import annotations

import functools
import itertools
import json
import re
import struct
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import diffusers
import safetensors
import safetensors.torch
import torch
from diffusers.loaders import single_file_utils
from diffusers.models.model_loading_utils import load_model_dict_into_meta
from diffusers.utils import logging
from torch import Tensor

from infralens.examiner import quiet_transformers
from infralens.suites.diffsynth.lab_02_model_loading_path import given
from infralens.suites.networks import seeded

logging.disable_progress_bar()
logging.set_verbosity_error()  # what a file lacks is this lab's subject

STEM = "diffusion_pytorch_model"
INDEX = f"{STEM}.safetensors.index"
META = torch.device("meta")
TAGS = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "I64": torch.int64,
    "I32": torch.int32,
    "U8": torch.uint8,
    "BOOL": torch.bool,
}

State = dict[str, Tensor]
Shapes = dict[str, list[int]]


# A file


class Reader:
    """`read` of one file, which counts the bytes that it gives."""

    def __init__(self, data: bytes) -> None:
        self.data, self.given = data, 0

    def read(self, offset: int, length: int) -> bytes:
        if type(offset) is not int or type(length) is not int or min(offset, length) < 0:
            raise ValueError("read takes an offset and a length, two whole numbers not below 0")
        piece = self.data[offset : offset + length]
        self.given += len(piece)
        return piece


def with_header(header: Any, data: bytes, spaces: int = 0) -> bytes:
    """A file with this header (JSON, or bytes as they are) in front of its data."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    text += b" " * spaces
    return struct.pack("<Q", len(text)) + text + data


def deserialized(data: bytes) -> list[tuple[str, dict[str, Any]]]:
    """What safetensors finds in a file, or its refusal."""
    deserialize: Any = safetensors.deserialize  # it has no types
    found: list[tuple[str, dict[str, Any]]] = deserialize(data)
    return found


def header_of(data: bytes) -> tuple[dict[str, tuple[str, list[int], int, int]], dict[str, str]]:
    """What safetensors says of a file; where in it a tensor lies is told by its bytes."""
    (length,) = struct.unpack("<Q", data[:8])
    offsets = {
        name: said["data_offsets"]
        for name, said in json.loads(data[8 : 8 + length]).items()
        if name != "__metadata__"
    }
    contents = {name: bytes(said["data"]) for name, said in deserialized(data)}
    found = {}
    with file_at(data) as path, safetensors.safe_open(path, framework="pt") as opened:
        for name in opened.keys():  # noqa: SIM118  # it is no dict
            piece = opened.get_slice(name)
            begin, end = (8 + length + offset for offset in offsets[name])
            if data[begin:end] != contents[name]:
                raise AssertionError(f"{name} lies elsewhere")
            found[name] = (piece.get_dtype(), list(piece.get_shape()), begin, end)
        return found, dict(opened.metadata() or {})


@contextmanager
def file_at(data: bytes) -> Iterator[str]:
    """The path of a file with these bytes."""
    with tempfile.TemporaryDirectory(prefix="infralens-", ignore_cleanup_errors=True) as folder:
        path = Path(folder, "file.safetensors")
        path.write_bytes(data)
        yield str(path)


def is_refused(data: bytes) -> bool:
    """Whether safetensors refuses this file."""
    try:
        deserialized(data)
    except safetensors.SafetensorError:
        return True
    return False


def sliced(data: bytes, name: str, rows: tuple[int, int] | None) -> Tensor:
    """These rows of a tensor as safetensors reads them."""
    with file_at(data) as path, safetensors.safe_open(path, framework="pt") as opened:
        if rows is None:
            whole: Tensor = opened.get_tensor(name)
            return whole
        piece: Tensor = opened.get_slice(name)[rows[0] : rows[1]]
        return piece.clone()


# A folder


def vae(widths: Sequence[int] = (8, 8)) -> Any:
    """A small AutoencoderKL, one block wide and with as many levels as there are widths."""
    return diffusers.AutoencoderKL(
        block_out_channels=tuple(widths),
        down_block_types=("DownEncoderBlock2D",) * len(widths),
        up_block_types=("UpDecoderBlock2D",) * len(widths),
        latent_channels=4,
        norm_num_groups=4,
    )


@functools.lru_cache
def saved_vae(kilobytes: int, variant: str | None) -> Mapping[str, bytes]:
    """The files of a VAE saved in shards of this size, its config among them."""
    with seeded(2), tempfile.TemporaryDirectory(prefix="infralens-") as folder:
        vae().save_pretrained(folder, max_shard_size=f"{kilobytes}KB", variant=variant)
        return {path.name: path.read_bytes() for path in Path(folder).iterdir()}


@contextmanager
def folder_of(files: Mapping[str, bytes]) -> Iterator[str]:
    """A folder with these files."""
    with tempfile.TemporaryDirectory(prefix="infralens-", ignore_cleanup_errors=True) as folder:
        for name, data in files.items():
            Path(folder, name).write_bytes(data)
        yield folder


def opened(files: Mapping[str, bytes], variant: str | None) -> list[str]:
    """The files of weights that from_pretrained opens, in order."""
    names: list[str] = []
    load = safetensors.torch.load_file

    def watched(path: Any, *args: Any, **kwargs: Any) -> State:
        names.append(Path(path).name)
        state: State = load(path, *args, **kwargs)
        return state

    with folder_of(files) as folder, mock.patch("safetensors.torch.load_file", watched):
        diffusers.AutoencoderKL.from_pretrained(folder, variant=variant, local_files_only=True)
    return names


def shapes_of(state: Mapping[str, Tensor]) -> Shapes:
    return {name: list(tensor.shape) for name, tensor in state.items()}


Report = tuple[list[str], list[str], list[tuple[str, list[int], list[int]]]]


def told_of(info: Mapping[str, Any]) -> Report:
    """A loading_info in the lab's form."""
    mismatched = sorted(
        (name, list(file), list(own)) for name, file, own in info["mismatched_keys"]
    )
    return sorted(info["missing_keys"]), sorted(info["unexpected_keys"]), mismatched


def vae_report(found: Mapping[str, Sequence[int]]) -> Report:
    """What diffusers says of a file with these names and shapes."""
    data = safetensors.torch.save({name: torch.zeros(*shape) for name, shape in found.items()})
    config = saved_vae(10**6, None)["config.json"]
    with folder_of({"config.json": config, f"{STEM}.safetensors": data}) as folder:
        _, info = diffusers.AutoencoderKL.from_pretrained(
            folder,
            output_loading_info=True,
            ignore_mismatched_sizes=True,
            low_cpu_mem_usage=False,
            local_files_only=True,
        )
    return told_of(info)


@functools.lru_cache
def t5() -> Any:
    """A small T5 encoder, whose embedding has two names."""
    transformers = quiet_transformers()
    config = transformers.T5Config(
        vocab_size=8, d_model=8, d_ff=8, d_kv=4, num_layers=1, num_heads=2
    )
    with seeded(3):
        return transformers.T5EncoderModel(config)


TIED = [["shared.weight", "encoder.embed_tokens.weight"]]


def t5_report(found: Mapping[str, Sequence[int]]) -> Report:
    """What transformers says of a file with these names and shapes."""
    tensors = {name: torch.zeros(*shape) for name, shape in found.items()}
    data = safetensors.torch.save(tensors, {"format": "pt"})
    config = t5().config.to_json_string(use_diff=False).encode()
    with folder_of({"config.json": config, "model.safetensors": data}) as folder:
        _, info = type(t5()).from_pretrained(
            folder, output_loading_info=True, local_files_only=True
        )
    return told_of(info)


# Old names


def vae_shapes(widths: Sequence[int]) -> Shapes:
    """{name: shape} of a VAE with these widths, as diffusers has it."""
    with META:
        return shapes_of(vae(widths).state_dict())


def old_vae(state: Mapping[str, Tensor], levels: int) -> State:
    """The state of a VAE as the first Stable Diffusion's code would have saved it."""
    kinds = {"group_norm": "norm", "to_q": "q", "to_k": "k", "to_v": "v", "to_out.0": "proj_out"}
    found = {}
    for new, tensor in state.items():
        name = new.replace("conv_shortcut", "nin_shortcut").replace("conv_norm_out", "norm_out")
        if match := re.fullmatch(r"(.*mid_block)\.attentions\.0\.(.+)\.(weight|bias)", name):
            if match[2] != "group_norm" and match[3] == "weight":
                tensor = tensor[:, :, None, None]
            name = f"{match[1]}.attn_1.{kinds[match[2]]}.{match[3]}"
        name = re.sub(r"mid_block\.resnets\.(\d)", lambda m: f"mid.block_{int(m[1]) + 1}", name)
        name = name.replace("mid_block", "mid")
        name = re.sub(r"up_blocks\.(\d)", lambda m: f"up.{levels - 1 - int(m[1])}", name).replace(
            "down_blocks", "down"
        )
        name = re.sub(r"resnets\.(\d)", r"block.\1", name)
        name = re.sub(r"(up|down)samplers\.0", r"\1sample", name)
        found[f"first_stage_model.{name}"] = tensor
    return found


def converted_vae(state: Mapping[str, Tensor], levels: int) -> State:
    """What diffusers makes of a VAE in the old names."""
    blocks = {"down_block_types": [""] * levels, "up_block_types": [""] * levels}
    made: State = single_file_utils.convert_ldm_vae_checkpoint(dict(state), blocks)
    return made


WIDTH = 3072  # diffusers' converter takes no other
QKV = ("to_q", "to_k", "to_v")
ADDED = ("add_q_proj", "add_k_proj", "add_v_proj")
PARTS = {  # of a double block: new name, old name, rows in widths
    "norm1.linear": ("img_mod.lin", 6),
    "norm1_context.linear": ("txt_mod.lin", 6),
    "attn.to_out.0": ("img_attn.proj", 1),
    "attn.to_add_out": ("txt_attn.proj", 1),
    "ff.net.0.proj": ("img_mlp.0", 4),
    "ff.net.2": ("img_mlp.2", 1),
    "ff_context.net.0.proj": ("txt_mlp.0", 4),
    "ff_context.net.2": ("txt_mlp.2", 1),
}
NORMS = {
    "attn.norm_q": "img_attn.norm.query_norm",
    "attn.norm_k": "img_attn.norm.key_norm",
    "attn.norm_added_q": "txt_attn.norm.query_norm",
    "attn.norm_added_k": "txt_attn.norm.key_norm",
}
ALONE = {"attn.norm_q": "norm.query_norm", "attn.norm_k": "norm.key_norm"}


def flux_shapes(width: int, doubles: int, singles: int) -> Shapes:
    """{name: shape} of blocks and last layer in the old names; matrices have two columns."""
    shapes: Shapes = {}

    def layer(name: str, rows: int) -> None:
        shapes[f"{name}.weight"], shapes[f"{name}.bias"] = [rows, 2], [rows]

    for i in range(doubles):
        for old, times in PARTS.values():
            layer(f"double_blocks.{i}.{old}", times * width)
        for side in ("img", "txt"):
            layer(f"double_blocks.{i}.{side}_attn.qkv", 3 * width)
        for old in NORMS.values():
            shapes[f"double_blocks.{i}.{old}.scale"] = [4]
    for i in range(singles):
        layer(f"single_blocks.{i}.modulation.lin", 3 * width)
        layer(f"single_blocks.{i}.linear1", 7 * width)
        layer(f"single_blocks.{i}.linear2", width)
        for old in ALONE.values():
            shapes[f"single_blocks.{i}.{old}.scale"] = [4]
    layer("final_layer.linear", 6)
    layer("final_layer.adaLN_modulation.1", 2 * width)
    return shapes


OUTSIDE = ("time_in", "vector_in")  # what diffusers' converter wants besides


def converted_flux(state: Mapping[str, Tensor]) -> State:
    """What diffusers makes of the original Flux's blocks and last layer."""
    whole = dict(state)
    for name in OUTSIDE:
        for layer, kind in itertools.product(("in_layer", "out_layer"), ("weight", "bias")):
            whole[f"{name}.{layer}.{kind}"] = torch.zeros(1)
    for name, kind in itertools.product(("txt_in", "img_in"), ("weight", "bias")):
        whole[f"{name}.{kind}"] = torch.zeros(1)
    made: State = single_file_utils.convert_flux_transformer_checkpoint_to_diffusers(whole)
    outside = ("time_text_embed", "context_embedder", "x_embedder")
    return {name: tensor for name, tensor in made.items() if not name.startswith(outside)}


@functools.lru_cache
def flux() -> Any:
    """A small Flux without numbers: whose names a converted state must have."""
    with META:
        return diffusers.FluxTransformer2DModel(
            num_layers=2,
            num_single_layers=1,
            attention_head_dim=4,
            num_attention_heads=3,
            joint_attention_dim=8,
            pooled_projection_dim=8,
            axes_dims_rope=(0, 2, 2),
            in_channels=4,
        )


def flux_state(draw: Any) -> State:
    """Numbers for the blocks and the last layer of that Flux, in diffusers' names."""
    own = ("transformer_blocks", "single_transformer_blocks", "norm_out", "proj_out")
    shapes = shapes_of(flux().state_dict())
    return {name: draw.latents(*shape) for name, shape in shapes.items() if name.startswith(own)}


def renumbered(state: State, block: int, to: int) -> State:
    """The same with another number for this double block: a real Flux has more than ten."""
    old, new = f"transformer_blocks.{block}.", f"transformer_blocks.{to}."
    return {
        new + name.removeprefix(old) if name.startswith(old) else name: tensor
        for name, tensor in state.items()
    }


def old_flux(state: Mapping[str, Tensor]) -> State:
    """The same as the original's code would have saved it."""
    found: State = {}
    for kind in ("weight", "bias"):
        for block in sorted({".".join(name.split(".")[:2]) for name in state if "blocks" in name}):
            number = block.split(".")[1]

            def part(name: str, block: str = block, kind: str = kind) -> Tensor:
                return state[f"{block}.{name}.{kind}"]

            if block.startswith("single"):
                old = f"single_blocks.{number}"
                fused = [part(f"attn.{name}") for name in QKV] + [part("proj_mlp")]
                found[f"{old}.linear1.{kind}"] = torch.cat(fused)
                found[f"{old}.linear2.{kind}"] = part("proj_out")
                found[f"{old}.modulation.lin.{kind}"] = part("norm.linear")
                norms = ALONE
            else:
                old = f"double_blocks.{number}"
                for side, names in (("img", QKV), ("txt", ADDED)):
                    fused = [part(f"attn.{name}") for name in names]
                    found[f"{old}.{side}_attn.qkv.{kind}"] = torch.cat(fused)
                for new, (word, _) in PARTS.items():
                    found[f"{old}.{word}.{kind}"] = part(new)
                norms = NORMS
            if kind == "weight":
                for new, word in norms.items():
                    found[f"{old}.{word}.scale"] = part(new)
        scale, shift = state[f"norm_out.linear.{kind}"].chunk(2)
        found[f"final_layer.adaLN_modulation.1.{kind}"] = torch.cat([shift, scale])
        found[f"final_layer.linear.{kind}"] = state[f"proj_out.{kind}"]
    return found


# From meta


def filled(module: Any, shards: Sequence[State], dtype: torch.dtype, keep: Sequence[str]) -> State:
    """What a module holds once diffusers has filled it from these files."""
    for shard in shards:
        load_model_dict_into_meta(module, shard, dtype=dtype, keep_in_fp32_modules=list(keep))
    return given.tensors(module)


WAN_KEEPS = ("rope", "time_embedder", "scale_shift_table", "norm1", "norm2", "norm3")


@functools.lru_cache
def wan() -> Any:
    """A small Wan."""
    with seeded(4):
        return diffusers.WanTransformer3DModel(
            num_attention_heads=2,
            attention_head_dim=12,
            in_channels=4,
            out_channels=4,
            text_dim=8,
            freq_dim=8,
            ffn_dim=8,
            num_layers=1,
            cross_attn_norm=True,
            rope_max_seq_len=8,
        )


def wan_loaded(state: State, dtype: torch.dtype) -> State:
    """What from_pretrained makes of these numbers, in this dtype."""
    data = safetensors.torch.save(state, {"format": "pt"})
    config = wan().to_json_string().encode()
    with folder_of({"config.json": config, f"{STEM}.safetensors": data}) as folder:
        made = diffusers.WanTransformer3DModel.from_pretrained(
            folder, torch_dtype=dtype, local_files_only=True
        )
    return {name: tensor.clone() for name, tensor in made.state_dict().items()}
