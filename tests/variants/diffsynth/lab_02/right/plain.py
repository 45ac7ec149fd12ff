"""Step by step, with loops; names are treated by regular expressions."""

import json
import re

import torch

SIZES = {"F64": 8, "I64": 8, "U64": 8, "F32": 4, "I32": 4, "U32": 4, "F16": 2, "BF16": 2}
SIZES.update({"I16": 2, "U16": 2, "I8": 1, "U8": 1, "BOOL": 1})
KINDS = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "I64": torch.int64,
    "I32": torch.int32,
    "U8": torch.uint8,
    "BOOL": torch.bool,
}


def product(numbers):
    result = 1
    for n in numbers:
        result *= n
    return result


def read_header(read, size):
    first = read(0, 8)
    if len(first) != 8:
        raise ValueError("too short")
    n = int.from_bytes(first, "little")
    if n > size - 8:
        raise ValueError("too long")
    found = json.loads(read(8, n).decode("utf-8"))
    if type(found) is not dict:
        raise ValueError("no object")
    notes, entries, used = {}, {}, []
    for key in found:
        if key == "__metadata__":
            notes = found[key]
            continue
        entry = found[key]
        if entry["dtype"] not in SIZES:
            raise ValueError(key)
        a, b = entry["data_offsets"]
        if product(entry["shape"]) * SIZES[entry["dtype"]] != b - a:
            raise ValueError(key)
        entries[key] = (entry["dtype"], tuple(entry["shape"]), a + n + 8, b + n + 8)
        used.append((a, b))
    used.sort()
    at = 0
    for a, b in used:
        if a != at:
            raise ValueError("hole or overlap")
        at = b
    if at + n + 8 != size:
        raise ValueError("left over")
    return entries, notes


def read_tensor(read, entry, rows):
    kind, shape, begin, end = entry
    if kind not in KINDS:
        raise ValueError(kind)
    shape = tuple(shape)
    if rows is None:
        pieces = [read(begin, end - begin)]
    else:
        width = product(shape[1:]) * SIZES[kind]
        pieces = [read(begin + i * width, width) for i in range(rows[0], rows[1])]
        shape = (rows[1] - rows[0],) + shape[1:]
    data = b"".join(pieces)
    if not data:
        return torch.zeros(shape, dtype=KINDS[kind])
    return torch.tensor(list(data), dtype=torch.uint8).view(KINDS[kind]).reshape(shape)


def weight_files(names, read_json, variant):
    if variant is None:
        index = "diffusion_pytorch_model.safetensors.index.json"
        alone = "diffusion_pytorch_model.safetensors"
    else:
        index = "diffusion_pytorch_model.safetensors.index." + variant + ".json"
        alone = "diffusion_pytorch_model." + variant + ".safetensors"
    if index not in names:
        if alone not in names:
            raise FileNotFoundError(alone)
        return [alone]
    result = []
    for file in read_json(index)["weight_map"].values():
        if re.search(r"[/\\]", file):
            raise ValueError(file)
        if file not in result:
            result.append(file)
    for file in result:
        if file not in names:
            raise FileNotFoundError(file)
    result.sort()
    return result


def key_report(expected, found, tied):
    absent, extra, unlike = [], [], []
    for name in sorted(expected):
        if name in found:
            if tuple(found[name]) != tuple(expected[name]):
                unlike.append((name, found[name], expected[name]))
            continue
        friends = [other for group in tied if name in group for other in group]
        if not any(friend in found for friend in friends):
            absent.append(name)
    for name in sorted(found):
        if name not in expected:
            extra.append(name)
    return absent, extra, unlike


def convert_vae(state, num_blocks):
    result = {}
    for key, value in state.items():
        name = re.sub(r"^first_stage_model\.", "", key)
        name = re.sub(r"\.down\.(\d+)\.block\.", r".down_blocks.\1.resnets.", name)
        name = re.sub(r"\.down\.(\d+)\.downsample\.", r".down_blocks.\1.downsamplers.0.", name)
        up = re.search(r"\.up\.(\d+)\.", name)
        if up:
            turned = f".up_blocks.{num_blocks - int(up.group(1)) - 1}."
            name = name.replace(up.group(0), turned)
            name = name.replace(".block.", ".resnets.").replace(".upsample.", ".upsamplers.0.")
        name = name.replace(".mid.block_1.", ".mid_block.resnets.0.")
        name = name.replace(".mid.block_2.", ".mid_block.resnets.1.")
        if ".mid.attn_1." in name:
            name = name.replace(".mid.attn_1.", ".mid_block.attentions.0.")
            name = name.replace("0.norm.", "0.group_norm.").replace("0.proj_out.", "0.to_out.0.")
            name = re.sub(r"0\.([qkv])\.", r"0.to_\1.", name)
            if value.dim() == 4:
                value = value.squeeze(3).squeeze(2)
        name = name.replace("nin_shortcut", "conv_shortcut")
        name = name.replace(".norm_out.", ".conv_norm_out.")
        result[name] = value
    return result


def convert_flux_blocks(state, width):
    plain = [
        ("img_mod.lin", "norm1.linear"),
        ("txt_mod.lin", "norm1_context.linear"),
        ("img_attn.norm.query_norm", "attn.norm_q"),
        ("img_attn.norm.key_norm", "attn.norm_k"),
        ("txt_attn.norm.query_norm", "attn.norm_added_q"),
        ("txt_attn.norm.key_norm", "attn.norm_added_k"),
        ("img_attn.proj", "attn.to_out.0"),
        ("txt_attn.proj", "attn.to_add_out"),
        ("img_mlp.0", "ff.net.0.proj"),
        ("img_mlp.2", "ff.net.2"),
        ("txt_mlp.0", "ff_context.net.0.proj"),
        ("txt_mlp.2", "ff_context.net.2"),
        ("modulation.lin", "norm.linear"),
        (".norm.query_norm", ".attn.norm_q"),
        (".norm.key_norm", ".attn.norm_k"),
        ("linear2", "proj_out"),
    ]
    result = {}
    for key, value in state.items():
        if key.startswith("final_layer.linear"):
            result[key.replace("final_layer.linear", "proj_out")] = value
            continue
        if key.startswith("final_layer"):
            half = value.shape[0] // 2
            swapped = torch.cat((value[half:], value[:half]), 0)
            result["norm_out.linear." + key.rsplit(".", 1)[1]] = swapped
            continue
        name = re.sub(r"\.scale$", ".weight", key)
        name = name.replace("double_blocks", "transformer_blocks")
        name = name.replace("single_blocks", "single_transformer_blocks")
        if "attn.qkv" in name:
            third = value.shape[0] // 3
            for i, letter in enumerate("qkv"):
                new = f"attn.to_{letter}" if "img" in name else f"attn.add_{letter}_proj"
                new = re.sub(r"(img|txt)_attn\.qkv", new, name)
                result[new] = value[i * third : (i + 1) * third]
        elif "linear1" in name:
            for i, letter in enumerate("qkv"):
                new = name.replace("linear1", f"attn.to_{letter}")
                result[new] = value[i * width : (i + 1) * width].clone()
            result[name.replace("linear1", "proj_mlp")] = value[3 * width :].clone()
        else:
            for old, new in plain:
                if old in name:
                    name = name.replace(old, new)
                    break
            result[name] = value
    return result


def load_low_memory(module, read_shard, names, dtype, keep):
    for file in names:
        for name, value in dict(read_shard(file)).items():
            path, _, own = name.rpartition(".")
            place = module
            for word in path.split(".") if path else []:
                place = dict(place.named_children()).get(word)
                if place is None:
                    break
            if place is None:
                continue
            if value.is_floating_point():
                value = (
                    value.to(dtype)
                    if not set(keep).intersection(name.split("."))
                    else value.float()
                )
            if own in place._parameters:
                place._parameters[own] = torch.nn.Parameter(value, requires_grad=False)
            elif own in place._buffers:
                place._buffers[own] = value
    for name, value in [*module.named_parameters(), *module.named_buffers()]:
        if value.device.type == "meta":
            raise ValueError(name)
