"""By tables and comprehensions; a tensor comes from torch's own view of bytes."""

import json
import operator
import re
from functools import reduce
from itertools import chain

import torch

WIDTHS = dict(zip("F64 I64 U64 F32 I32 U32 F16 BF16 I16 U16 I8 U8 BOOL".split(), "8884442222111"))
TORCH = {"F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16"}
TORCH.update(I64="int64", I32="int32", U8="uint8", BOOL="bool")


def times(shape):
    return reduce(operator.mul, shape, 1)


def read_header(read, size):
    prefix = int.from_bytes(read(0, min(8, size)), byteorder="little")
    data = prefix + 8
    if size < 8 or data > size:
        raise ValueError("the header does not fit")
    said = json.loads(str(read(8, prefix), "utf-8"))
    if not hasattr(said, "items"):
        raise ValueError("not an object")
    notes = {} if "__metadata__" not in said else said["__metadata__"]
    listed = [
        (k, v["dtype"], v["shape"], *v["data_offsets"]) for k, v in said.items() if k[:2] != "__"
    ]
    for k, kind, shape, a, b in listed:
        if kind not in WIDTHS or times(shape) * int(WIDTHS[kind]) != b - a:
            raise ValueError(f"{k}: {kind} {shape}")
    edges = sorted((a, b) for *_, a, b in listed)
    left, right = [a for a, _ in edges] + [size - data], [0] + [b for _, b in edges]
    if left != right:
        raise ValueError(f"{left} against {right}")
    return {k: [kind, shape, a + data, b + data] for k, kind, shape, a, b in listed}, notes


def read_tensor(read, entry, rows):
    kind = TORCH.get(entry[0])
    if kind is None:
        raise ValueError(f"{entry[0]} is unknown")
    shape = torch.Size(entry[1])
    first, last = (0, shape[0] if shape else 1) if rows is None else rows
    made = torch.zeros([last - first, *shape[1:]], dtype=getattr(torch, kind))
    stride = made.element_size() * times(shape[1:])
    piece = read(entry[2] + first * stride, (last - first) * stride)
    flat = made.view(-1).view(torch.uint8)
    flat[:] = torch.tensor([*piece], dtype=torch.uint8)
    return made if shape else made[0]


def weight_files(names, read_json, variant):
    word = [] if variant is None else [variant]
    there = frozenset(names)
    index = ".".join(["diffusion_pytorch_model", "safetensors", "index", *word, "json"])
    files = {".".join(["diffusion_pytorch_model", *word, "safetensors"])}
    if there >= {index}:
        files = {*read_json(index).get("weight_map").values()}
    if any(set("/\\") & set(file) for file in files):
        raise ValueError("a path")
    if files - there:
        raise FileNotFoundError(str(files - there))
    return sorted(files)


def key_report(expected, found, tied):
    home = {name: i for i, group in enumerate(tied) for name in group}
    groups = {home[name] for name in found if name in home}
    lost = {n for n in expected if n not in found and home.get(n, -1) not in groups}
    shapes = [(n, [*found[n]], [*expected[n]]) for n in found if n in expected]
    return (
        sorted(lost),
        sorted(n for n in found if n not in expected),
        sorted(each for each in shapes if each[1] != each[2]),
    )


VAE = [
    (r"first_stage_model\.", ""),
    (r"\.(down|up)\.(\d+)\.block\.", r".\1_blocks.\2.resnets."),
    (r"\.(down|up)\.(\d+)\.\1sample\.", r".\1_blocks.\2.\1samplers.0."),
    (r"mid\.attn_1\.(q|k|v)\.", r"mid_block.attentions.0.to_\1."),
    (r"mid\.attn_1\.proj_out\.", "mid_block.attentions.0.to_out.0."),
    (r"mid\.attn_1\.norm\.", "mid_block.attentions.0.group_norm."),
    (r"mid\.block_1", "mid_block.resnets.0"),
    (r"mid\.block_2", "mid_block.resnets.1"),
    (r"nin_shortcut", "conv_shortcut"),
    (r"coder\.norm_out", "coder.conv_norm_out"),
]


def convert_vae(state, num_blocks):
    def renamed(name):
        for pattern, by in VAE:
            name = re.sub(pattern, by, name)
        return re.sub(
            r"up_blocks\.(\d+)", lambda m: f"up_blocks.{num_blocks - int(m[1]) - 1}", name
        )

    pairs = ((renamed(name), value) for name, value in state.items())
    return {
        name: value.flatten(1) if "attentions" in name and value.ndim > 1 else value
        for name, value in pairs
    }


FLUX = [
    (r"^double_blocks", "transformer_blocks"),
    (r"^single_blocks", "single_transformer_blocks"),
    (r"scale$", "weight"),
    (r"img_mod\.lin", "norm1.linear"),
    (r"txt_mod\.lin", "norm1_context.linear"),
    (r"modulation\.lin", "norm.linear"),
    (r"img_attn\.norm\.(.).*_norm", lambda m: f"attn.norm_{m[1]}"),
    (r"txt_attn\.norm\.(.).*_norm", lambda m: f"attn.norm_added_{m[1]}"),
    (r"(?<=\d\.)norm\.(query|key)_norm", lambda m: f"attn.norm_{m[1][0]}"),
    (r"img_attn\.proj", "attn.to_out.0"),
    (r"txt_attn\.proj", "attn.to_add_out"),
    (r"img_mlp\.0", "ff.net.0.proj"),
    (r"txt_mlp\.0", "ff_context.net.0.proj"),
    (r"img_mlp\.2", "ff.net.2"),
    (r"txt_mlp\.2", "ff_context.net.2"),
    (r"linear2|final_layer\.linear", "proj_out"),
    (r"final_layer\.adaLN_modulation\.1", "norm_out.linear"),
]


def convert_flux_blocks(state, width):
    def several(name, value):
        for pattern, by in FLUX:
            name = re.sub(pattern, by, name)
        if name.startswith("norm_out"):
            return [(name, value.roll(len(value) // 2, 0))]
        places = {
            "img_attn.qkv": ["attn.to_q", "attn.to_k", "attn.to_v"],
            "txt_attn.qkv": ["attn.add_q_proj", "attn.add_k_proj", "attn.add_v_proj"],
            "linear1": ["attn.to_q", "attn.to_k", "attn.to_v", "proj_mlp"],
        }
        for old, new in places.items():
            if f".{old}." in name:
                cut = value.tensor_split([width, 2 * width, 3 * width][: len(new) - 1])
                return [(name.replace(old, each), part) for each, part in zip(new, cut)]
        return [(name, value)]

    return dict(chain.from_iterable(several(*item) for item in state.items()))


def load_low_memory(module, read_shard, names, dtype, keep):
    homes = {}
    for path, part in module.named_modules():
        for own in [*part._parameters, *part._buffers]:
            homes[f"{path}.{own}".lstrip(".")] = (part, own)
    for own_file in names:
        shard = read_shard(own_file)
        for name in homes.keys() & shard.keys():
            part, own = homes[name]
            value = shard[name]
            if value.dtype.is_floating_point:
                value = value.to([dtype, torch.float32][not set(keep).isdisjoint(name.split("."))])
            if own in part._parameters:
                value = torch.nn.Parameter(value)
            setattr(part, own, value)
    empty = [name for name, (part, own) in homes.items() if getattr(part, own).is_meta]
    if empty:
        raise ValueError(" ".join(empty))
