"""Lab 02 · Model loading path: from bytes in a file to tensors in a module, and nothing more.

Goal: load weights by hand. What lies in a weights file and how little of it must be read, which
files of a folder are the weights, what is missing and what is left over, how a name in an old file
becomes a name in the module, and how a module is filled without ever being in memory twice.

Three kinds of things are lent. `read(offset, length)` gives bytes of a file that lies elsewhere;
how many were read is counted. A length of 0 is allowed, and where the file ends it gives fewer
bytes than were asked for. `read_json(name)` gives a JSON file of a folder as a dict.
`read_shard(name)` gives {name of a tensor: tensor}.

A safetensors file is: 8 bytes, the length n of the header; n bytes of JSON; the data.
All numbers are little-endian.

`diffusers` and `accelerate` cannot be imported in this file; safetensors reads whole files.
"""

import json
import math
import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

Read = Callable[[int, int], bytes]
Entry = tuple[str, Sequence[int], int, int]  # dtype tag, shape, begin, end
Shape = Sequence[int]

BYTES = {"F64": 8, "I64": 8, "U64": 8, "F32": 4, "I32": 4, "U32": 4}
BYTES |= {"F16": 2, "BF16": 2, "I16": 2, "U16": 2, "I8": 1, "U8": 1, "BOOL": 1}
"""How many bytes an element has, by the tag of its dtype."""

RENAMES = {
    "double_blocks": "transformer_blocks",
    "img_mod.lin": "norm1.linear",
    "txt_mod.lin": "norm1_context.linear",
    "img_attn.norm.query_norm": "attn.norm_q",
    "img_attn.norm.key_norm": "attn.norm_k",
    "txt_attn.norm.query_norm": "attn.norm_added_q",
    "txt_attn.norm.key_norm": "attn.norm_added_k",
    "img_attn.proj": "attn.to_out.0",
    "txt_attn.proj": "attn.to_add_out",
    "img_mlp.0": "ff.net.0.proj",
    "img_mlp.2": "ff.net.2",
    "txt_mlp.0": "ff_context.net.0.proj",
    "txt_mlp.2": "ff_context.net.2",
    "single_blocks": "single_transformer_blocks",
    "modulation.lin": "norm.linear",
    "norm.query_norm": "attn.norm_q",
    "norm.key_norm": "attn.norm_k",
    "linear2": "proj_out",
    "final_layer.linear": "proj_out",
    "final_layer.adaLN_modulation.1": "norm_out.linear",
}
"""The original Flux's word for a part: diffusers' word. For 2.6, which says where more is to do."""


def read_header(
    read: Read, size: int
) -> tuple[dict[str, tuple[str, list[int], int, int]], dict[str, str]]:
    """2.1 · The header of a safetensors file of `size` bytes: (tensors, metadata).

    tensors: {name: (dtype tag, shape, begin, end)}; begin and end are counted from the start of the
    file. In the JSON a tensor is {"dtype": tag, "shape": [...], "data_offsets": [a, b]}, with a and
    b counted from the end of the header. metadata: what the JSON has under "__metadata__", {} if it
    has nothing there. Entries may stand in any order, and spaces may stand behind the JSON.

    The 8 bytes and the header are read, once, and nothing else.

    ValueError: a header that does not fit in the file; no JSON object; a tag that BYTES does not
    have; an entry that has more or fewer bytes than its shape and dtype need; and, of the data that
    follow the header, bytes that belong to two entries or to none.

    Source: safetensors.safe_open; its refusals are those of safetensors.deserialize.

    >>> text = b'{"w": {"dtype": "F16", "shape": [2, 1], "data_offsets": [0, 4]}}'
    >>> file = struct.pack("<Q", len(text)) + text + bytes(4)
    >>> read_header(lambda offset, length: file[offset : offset + length], len(file))
    ({'w': ('F16', [2, 1], 72, 76)}, {})
    """
    ### BEGIN SOLUTION
    if size < 8:
        raise ValueError(f"a file of {size} bytes has no header")
    (length,) = struct.unpack("<Q", read(0, 8))
    start = 8 + length
    if start > size:
        raise ValueError(f"a header of {length} bytes in a file of {size}")
    header = json.loads(read(8, length))
    if not isinstance(header, dict):
        raise ValueError("the header is no JSON object")
    metadata = header.pop("__metadata__", {})
    tensors = {}
    for name, said in header.items():
        tag, shape = said["dtype"], said["shape"]
        begin, end = said["data_offsets"]
        if tag not in BYTES:
            raise ValueError(f"{name} has the unknown dtype {tag}")
        if end - begin != math.prod(shape) * BYTES[tag]:
            raise ValueError(f"{name} has {end - begin} bytes for a shape of {shape}")
        tensors[name] = (tag, shape, start + begin, start + end)
    reached = start
    for _, _, begin, end in sorted(tensors.values(), key=lambda entry: entry[2:]):
        if begin != reached:
            raise ValueError(f"a hole or an overlap at byte {reached}")
        reached = end
    if reached != size:
        raise ValueError(f"the entries end at byte {reached} of {size}")
    return tensors, metadata
    ### END SOLUTION


def read_tensor(read: Read, entry: Entry, rows: tuple[int, int] | None) -> Tensor:
    """2.2 · One tensor of the file, or some of its rows, bit for bit.

    entry: (dtype tag, shape, begin, end) as in 2.1. rows: None for all, or (start, stop) along
    axis 0, with 0 ≤ start ≤ stop ≤ shape[0]. Elements lie in C order, the last axis fastest.

    Exactly the bytes of what is returned are read, in one piece or in several. Tags: F64, F32, F16,
    BF16, I64, I32, U8, BOOL; another: ValueError. numpy has no bfloat16, and torch.frombuffer
    refuses 0 bytes.

    Source: safetensors.safe_open(...).get_slice(name)[start:stop].

    >>> file = struct.pack("<6f", 0, 1, 2, 3, 4, 5)
    >>> read_tensor(lambda offset, length: file[offset:][:length], ("F32", [3, 2], 0, 24), (1, 2))
    tensor([[2., 3.]])
    """
    ### BEGIN SOLUTION
    dtypes = {"F64": torch.float64, "F32": torch.float32, "F16": torch.float16}
    dtypes |= {"BF16": torch.bfloat16, "I64": torch.int64, "I32": torch.int32}
    dtypes |= {"U8": torch.uint8, "BOOL": torch.bool}
    tag, shape, begin, end = entry
    if tag not in dtypes:
        raise ValueError(f"no rule for the dtype {tag}")
    dtype, shape = dtypes[tag], list(shape)
    if rows is not None:
        start, stop = rows
        row = math.prod(shape[1:]) * dtype.itemsize
        begin, end = begin + start * row, begin + stop * row
        shape[0] = stop - start
    if begin == end:
        return torch.empty(shape, dtype=dtype)
    data = bytearray(read(begin, end - begin))
    return torch.frombuffer(data, dtype=dtype).reshape(shape)
    ### END SOLUTION


def weight_files(
    names: Sequence[str], read_json: Callable[[str], Mapping[str, Any]], variant: str | None
) -> list[str]:
    """2.3 · The files that hold a component's weights, in the order in which they are read.

    names: what lies in the component's folder. variant: None, or a word such as "fp16".

    The index is diffusion_pytorch_model.safetensors.index.json; its "weight_map" is {name of a
    tensor: name of the file that holds it}. With an index, the answer is the files that it names,
    sorted, each once. Without, it is the single file, diffusion_pytorch_model.safetensors. Where
    both lie there, the index counts. With a variant the word stands before the name's last part:
    diffusion_pytorch_model.safetensors.index.fp16.json and
    diffusion_pytorch_model.fp16.safetensors, and the plain files do not count.

    FileNotFoundError: a file that the index names is not there; there are no weights. ValueError: a
    file that the index names has a path in its name ("/" or "\\\\"), whether it is there or not: it
    would be read from another folder.

    Source: AutoencoderKL.from_pretrained, by the files that it opens.

    >>> weight_files(["config.json", "diffusion_pytorch_model.safetensors"], dict, None)
    ['diffusion_pytorch_model.safetensors']
    """
    ### BEGIN SOLUTION
    stem, infix = "diffusion_pytorch_model", f".{variant}" if variant else ""
    index, single = f"{stem}.safetensors.index{infix}.json", f"{stem}{infix}.safetensors"
    shards = [single]
    if index in names:
        shards = sorted(set(read_json(index)["weight_map"].values()))
    for shard in shards:
        if "/" in shard or "\\" in shard:
            raise ValueError(f"the index names a file elsewhere: {shard}")
    for shard in shards:
        if shard not in names:
            raise FileNotFoundError(f"there is no {shard}")
    return shards
    ### END SOLUTION


def key_report(
    expected: Mapping[str, Shape], found: Mapping[str, Shape], tied: Sequence[Sequence[str]]
) -> tuple[list[str], list[str], list[tuple[str, Shape, Shape]]]:
    """2.4 · What of a file does not fit a module: (missing, unexpected, mismatched).

    expected: {name: shape} of the module. found: {name: shape} of the file. tied: groups of names
    that are one tensor in the module, such as an embedding that two parts use.

    missing: names that the module needs and nobody brings, sorted. A name is not missing when one
    of its group is found. unexpected: names that only the file has, sorted. mismatched: (name,
    shape in the file, shape in the module) of names that both have with two shapes, sorted; such a
    name is neither missing nor unexpected.

    Source: from_pretrained(..., output_loading_info=True) of diffusers and of transformers.

    >>> key_report({"a": (2,), "b": (3,)}, {"b": (4,), "c": (1,)}, [])
    (['a'], ['c'], [('b', (4,), (3,))])
    """
    ### BEGIN SOLUTION
    brought = set(found)
    for group in tied:
        if brought.intersection(group):
            brought.update(group)
    missing = sorted(set(expected) - brought)
    unexpected = sorted(set(found) - set(expected))
    mismatched = [
        (name, found[name], expected[name])
        for name in sorted(set(expected) & set(found))
        if list(found[name]) != list(expected[name])
    ]
    return missing, unexpected, mismatched
    ### END SOLUTION


def convert_vae(state: Mapping[str, Tensor], num_blocks: int) -> dict[str, Tensor]:
    """2.5 · A VAE of the first Stable Diffusion's code in the names and shapes of diffusers.

    state: {old name: tensor}, the whole VAE. num_blocks: levels of encoder and decoder.

      old                                    new
      first_stage_model.…                    …
      encoder.down.i.block.j                 encoder.down_blocks.i.resnets.j
      encoder.down.i.downsample              encoder.down_blocks.i.downsamplers.0
      decoder.up.i.block.j                   decoder.up_blocks.(num_blocks − 1 − i).resnets.j
      decoder.up.i.upsample                  decoder.up_blocks.(num_blocks − 1 − i).upsamplers.0
      mid.block_1, mid.block_2               mid_block.resnets.0, mid_block.resnets.1
      mid.attn_1                             mid_block.attentions.0
      in it: norm, q, k, v, proj_out         group_norm, to_q, to_k, to_v, to_out.0
      in a block: nin_shortcut               conv_shortcut
      norm_out (of encoder and decoder)      conv_norm_out

    The old decoder counts its levels from the largest picture, diffusers' as they run. The old
    attention's weights are convolutions (C, C, 1, 1), the new ones are linear (C, C).
    What the table does not name stays as it is.

    Source: convert_ldm_vae_checkpoint in diffusers.loaders.single_file_utils.

    >>> old = {"first_stage_model.decoder.up.3.block.0.norm1.bias": torch.zeros(2)}
    >>> list(convert_vae(old, 4))
    ['decoder.up_blocks.0.resnets.0.norm1.bias']
    """
    ### BEGIN SOLUTION
    attention = {
        "norm": "group_norm",
        "q": "to_q",
        "k": "to_k",
        "v": "to_v",
        "proj_out": "to_out.0",
    }
    converted = {}
    for old, tensor in state.items():
        words = old.removeprefix("first_stage_model.").split(".")
        new = words
        if "down" in words or "up" in words:
            side, way, level, kind, *rest = words
            if way == "up":
                level = str(num_blocks - 1 - int(level))
            if kind == "block":
                number, *rest = rest
                kind = f"resnets.{number}"
            else:
                kind = f"{kind}rs.0"
            new = [side, f"{way}_blocks", level, kind, *rest]
        elif "mid" in words:
            side, _, kind, *rest = words
            if kind == "attn_1":
                if len(tensor.shape) == 4:
                    tensor = tensor[:, :, 0, 0]
                new = [side, "mid_block.attentions.0", attention[rest[0]], *rest[1:]]
            else:
                new = [side, "mid_block.resnets", str(int(kind[-1]) - 1), *rest]
        renamed = {"nin_shortcut": "conv_shortcut", "norm_out": "conv_norm_out"}
        converted[".".join(renamed.get(word, word) for word in new)] = tensor
    return converted
    ### END SOLUTION


def convert_flux_blocks(state: Mapping[str, Tensor], width: int) -> dict[str, Tensor]:
    """2.6 · Blocks and last layer of the original Flux, in the names of FluxTransformer2DModel.

    state: {old name: tensor}, of double_blocks.i, single_blocks.i and final_layer. width: of the
    hidden states. The plain renames are in RENAMES; a part's scale is called weight in the new
    names; weight and bias keep theirs. Four are more than a rename, for weight and bias alike:

      img_attn.qkv          q, k, v one below the other: attn.to_q, attn.to_k, attn.to_v
      txt_attn.qkv          likewise: attn.add_q_proj, attn.add_k_proj, attn.add_v_proj
      linear1               of a single block: q, k, v, of `width` rows each, to attn.to_q,
                            attn.to_k, attn.to_v, and the rest to proj_mlp
      adaLN_modulation.1    of final_layer: the first half of the rows is the shift, the second
                            the scale; norm_out.linear has the scale first

    Source: convert_flux_transformer_checkpoint_to_diffusers in diffusers.loaders.single_file_utils.

    >>> old = {"single_blocks.0.linear1.bias": torch.arange(14.0)}
    >>> new = convert_flux_blocks(old, 2)
    >>> new["single_transformer_blocks.0.attn.to_k.bias"].tolist()
    [2.0, 3.0]
    >>> len(new["single_transformer_blocks.0.proj_mlp.bias"])
    8
    """
    ### BEGIN SOLUTION
    longest = sorted(RENAMES, key=len, reverse=True)
    converted = {}
    for old, tensor in state.items():
        *words, kind = old.split(".")
        kind = "weight" if kind == "scale" else kind
        place = ".".join(words)
        for word in ("double_blocks", "single_blocks"):
            if place.startswith(word):
                place = RENAMES[word] + place.removeprefix(word)
        if place.endswith("_attn.qkv"):
            block = place.removesuffix(".img_attn.qkv").removesuffix(".txt_attn.qkv")
            parts = ("to_q", "to_k", "to_v")
            if place.endswith("txt_attn.qkv"):
                parts = ("add_q_proj", "add_k_proj", "add_v_proj")
            for part, rows in zip(parts, tensor.chunk(3), strict=True):
                converted[f"{block}.attn.{part}.{kind}"] = rows
            continue
        if place.endswith(".linear1"):
            block = place.removesuffix(".linear1")
            sizes = [width, width, width, len(tensor) - 3 * width]
            parts = ("attn.to_q", "attn.to_k", "attn.to_v", "proj_mlp")
            for part, rows in zip(parts, tensor.split(sizes), strict=True):
                converted[f"{block}.{part}.{kind}"] = rows
            continue
        if "adaLN_modulation" in place:
            shift, scale = tensor.chunk(2)
            tensor = torch.cat([scale, shift])
        word = next((word for word in longest if place.endswith(word)), "")
        if word:
            place = place.removesuffix(word) + RENAMES[word]
        converted[f"{place}.{kind}"] = tensor
    return converted
    ### END SOLUTION


def load_low_memory(
    module: nn.Module,
    read_shard: Callable[[str], Mapping[str, Tensor]],
    names: Sequence[str],
    dtype: torch.dtype,
    keep: Sequence[str],
) -> None:
    """2.7 · Fill a module whose parameters are on meta, one file after the other.

    module: its parameters are on the device meta, with shapes and without numbers; its buffers are
    real, and one of them is in no file. names: the files; read_shard is called once for each, in
    this order, and a tensor that was assigned need not be anywhere else when the next file is read.

    Tensors of floating point are cast to dtype, or to float32 where one part of the dotted name is
    equal to an entry of keep; others keep their dtype. What the file has goes in, parameters and
    buffers, whatever dtype the module had; names that the module does not have are passed over.
    Whatever a file is, the module keeps its parts: a caller may hold them. Nothing is returned.

    ValueError: something is still on meta at the end. The message names it.

    Source: load_model_dict_into_meta in diffusers.models.model_loading_utils.

    >>> module = nn.Linear(2, 1, device="meta")
    >>> state = {"weight": torch.ones(1, 2), "bias": torch.zeros(1)}
    >>> load_low_memory(module, {"all": state}.get, ["all"], torch.float16, ["bias"])
    >>> module.weight.tolist(), module.weight.dtype, module.bias.dtype
    ([[1.0, 1.0]], torch.float16, torch.float32)
    """
    ### BEGIN SOLUTION
    known = set(module.state_dict())
    for name in names:
        shard = {}
        for key, tensor in read_shard(name).items():
            if key not in known:
                continue
            if tensor.is_floating_point():
                kept = any(part in keep for part in key.split("."))
                tensor = tensor.to(torch.float32 if kept else dtype)
            shard[key] = tensor
        module.load_state_dict(shard, strict=False, assign=True)
    left = [key for key, tensor in module.state_dict().items() if tensor.is_meta]
    if left:
        raise ValueError(f"no file has {', '.join(left)}")
    ### END SOLUTION
