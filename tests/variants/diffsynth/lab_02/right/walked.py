"""By small classes that walk over what there is; a tensor comes from numpy, and is put in by swapping."""

import json
from collections import Counter
from dataclasses import dataclass

import numpy as np
import torch

ELEMENTS = {
    **dict.fromkeys(["F64", "I64", "U64"], 8),
    **dict.fromkeys(["F32", "I32", "U32"], 4),
    **dict.fromkeys(["F16", "BF16", "I16", "U16"], 2),
    **dict.fromkeys(["I8", "U8", "BOOL"], 1),
}
AS_NUMPY = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<i2"}
AS_NUMPY |= {"I64": "<i8", "I32": "<i4", "U8": "u1", "BOOL": "?"}
STEM = "diffusion_pytorch_model"


@dataclass
class Extent:
    """What one entry of a header claims of the data."""

    tag: str
    shape: list
    first: int
    last: int

    def check(self):
        count = ELEMENTS.get(self.tag)
        if count is None:
            raise ValueError(f"unknown: {self.tag}")
        for axis in self.shape:
            count *= axis
        if self.first + count != self.last:
            raise ValueError(f"{self.first} and {count} bytes are not {self.last}")


def read_header(read, size):
    head = np.frombuffer(read(0, 8), dtype="u1")
    if head.size < 8:
        raise ValueError("not even a length")
    n = sum(int(byte) << 8 * i for i, byte in enumerate(head))
    room = size - 8 - n
    if room < 0:
        raise ValueError("the file ends in its header")
    tree = json.loads(read(8, n))
    if isinstance(tree, (list, str, int, float, type(None))):
        raise ValueError("a header is an object")
    notes = dict(tree.pop("__metadata__", None) or {})
    extents = {k: Extent(v["dtype"], v["shape"], *v["data_offsets"]) for k, v in tree.items()}
    ends, covered = Counter([0]), 0
    for extent in extents.values():
        extent.check()
        covered += extent.last - extent.first
        # each end is the begin of one other; 0 begins the first, and the last one's end is left
        ends[extent.last] += 1
        ends[extent.first] -= 1
        if extent.last > room or extent.first < 0:
            raise ValueError("an entry leaves the file")
    if +ends != Counter([room]) or -ends or covered != room:
        raise ValueError("the entries do not fill the data, each byte once")
    return {k: (e.tag, e.shape, 8 + n + e.first, 8 + n + e.last) for k, e in extents.items()}, notes


def read_tensor(read, entry, rows):
    (tag, shape, first, last) = entry
    try:
        kind = np.dtype(AS_NUMPY[tag])
    except KeyError as unknown:
        raise ValueError(tag) from unknown
    size = [int(axis) for axis in shape]
    if rows is not None:
        per_row = (last - first) // size[0] if size[0] else 0
        size = [rows[1] - rows[0], *size[1:]]
        first, last = first + per_row * rows[0], first + per_row * rows[1]
    numbers = np.frombuffer(read(first, last - first) if last > first else b"", dtype=kind)
    found = torch.from_numpy(numbers.copy().reshape(size))
    return found.view(torch.bfloat16) if tag == "BF16" else found


def weight_files(names, read_json, variant):
    suffix = () if not variant else (variant,)
    listing = ".".join((STEM, "safetensors", "index") + suffix + ("json",))
    if listing not in names:
        needed = [".".join((STEM, *suffix, "safetensors"))]
    else:
        needed = []
        for holder in sorted(read_json(listing)["weight_map"].values()):
            if holder.replace("\\", "/").rpartition("/")[1]:
                raise ValueError(f"{holder} leads elsewhere")
            needed += [holder] if holder not in needed[-1:] else []
    gone = [each for each in needed if names.count(each) == 0]
    if gone:
        raise FileNotFoundError(gone[0])
    return needed


def key_report(expected, found, tied):
    # every name stands for the first of its group
    first_of = {}
    for group in tied:
        for name in group:
            first_of[name] = group[0]
    brought = {first_of.get(name, name) for name in found}
    report = ([], [], [])
    for name in sorted({*expected, *found}):
        if name not in expected:
            report[1].append(name)
        elif name not in found:
            if first_of.get(name, name) not in brought:
                report[0].append(name)
        elif tuple(found[name]) != tuple(expected[name]):
            report[2].append((name, found[name], expected[name]))
    return report


class OldVae:
    """Reads an old name from left to right, and writes the new one."""

    def __init__(self, name, levels):
        self.left = name.split(".")
        self.levels = levels
        self.written = []
        if self.left[0] == "first_stage_model":
            self.left.pop(0)

    def take(self):
        return self.left.pop(0)

    def write(self, *words):
        self.written.extend(str(word) for word in words)

    def level(self, way):
        number = int(self.take())
        self.write(f"{way}_blocks", number if way == "down" else self.levels - number - 1)
        if self.take() == "block":
            self.write("resnets", self.take())
        else:
            self.write(f"{way}samplers", 0)

    def middle(self):
        part = self.take()
        if part != "attn_1":
            self.write("mid_block", "resnets", "_12".index(part[-1]) - 1)
            return
        self.write("mid_block", "attentions", 0)
        layer = self.take()
        self.write(*{"norm": ["group_norm"], "proj_out": ["to_out", 0]}.get(layer, ["to_" + layer]))

    def new(self):
        while self.left:
            word = self.take()
            if word in ("up", "down"):
                self.level(word)
            elif word == "mid":
                self.middle()
            elif word == "nin_shortcut":
                self.write("conv_shortcut")
            else:
                self.write("conv_norm_out" if word == "norm_out" else word)
        return ".".join(self.written)


def convert_vae(state, num_blocks):
    made = {OldVae(name, num_blocks).new(): value for name, value in state.items()}
    for name in [name for name in made if ".attentions." in name]:
        if made[name].ndim > 2:
            made[name] = made[name].reshape(made[name].shape[:2])
    return made


SIDES = {"img": ("norm1", "ff", "attn.to_%s", "", "to_out.0")}
SIDES["txt"] = ("norm1_context", "ff_context", "attn.add_%s_proj", "added_", "to_add_out")


def of_a_double_block(side, part, inner, value):
    """(name behind the block, tensor) of one layer: part is attn, mod or mlp."""
    norm, mlp, projection, added, out = SIDES[side]
    if part == "mod":
        yield f"{norm}.linear", value
    elif part == "mlp":
        yield f"{mlp}.net.{'0.proj' if inner == '0' else '2'}", value
    elif inner == "qkv":
        for letter, rows in zip("qkv", value.view(3, -1, *value.shape[1:])):
            yield projection % letter, rows
    elif inner == "proj":
        yield f"attn.{out}", value
    else:
        yield f"attn.norm_{added}{inner.removeprefix('norm.')[0]}", value


def of_a_single_block(layer, width, value):
    if layer == "linear1":
        for i, name in enumerate(["attn.to_q", "attn.to_k", "attn.to_v"]):
            yield name, value.narrow(0, i * width, width)
        yield "proj_mlp", value.narrow(0, 3 * width, value.shape[0] - 3 * width)
    elif layer.startswith("norm"):
        yield "attn.norm_" + layer.split(".")[1][0], value
    else:
        yield {"linear2": "proj_out", "modulation.lin": "norm.linear"}[layer], value


def convert_flux_blocks(state, width):
    made = {}
    for name, value in state.items():
        group, *middle, kind = name.split(".")
        last = "bias" if kind == "bias" else "weight"
        if group == "final_layer":
            if middle == ["linear"]:
                made[f"proj_out.{last}"] = value
            else:
                made[f"norm_out.linear.{last}"] = torch.cat(value.chunk(2)[::-1])
            continue
        number, layer = middle[0], ".".join(middle[1:])
        if group == "single_blocks":
            block = f"single_transformer_blocks.{number}"
            found = of_a_single_block(layer, width, value)
        else:
            block = f"transformer_blocks.{number}"
            side_and_part, _, inner = layer.partition(".")
            found = of_a_double_block(*side_and_part.split("_"), inner, value)
        for new, rows in found:
            made[f"{block}.{new}.{last}"] = rows
    return made


def load_low_memory(module, read_shard, names, dtype, keep):
    empty = {*()}
    places = {**dict(module.named_parameters()), **dict(module.named_buffers())}
    unsaved = {*places} - {*module.state_dict()}
    empty.update(name for name in places if places[name].device == torch.device("meta"))
    for shard in map(read_shard, names):
        for name in sorted({*shard} & {*places} - unsaved):
            value = shard[name].detach()
            if value.dtype.is_floating_point:
                float32 = [word for word in name.split(".") if word in keep]
                value = value.type(torch.float32 if float32 else dtype)
            if isinstance(places[name], torch.nn.Parameter):
                value = torch.nn.Parameter(value.clone(), places[name].requires_grad)
            else:
                value = value.clone()
            torch.utils.swap_tensors(places[name], value)
            empty.discard(name)
    if empty:
        raise ValueError("still on meta: " + ", ".join(sorted(empty)))
