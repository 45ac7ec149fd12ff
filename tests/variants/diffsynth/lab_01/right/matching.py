"""With match statements, ceilings instead of floors, and logarithms where nobody needs them."""

import collections
import itertools
import math
import re


def effective_config(parameters, config, overrides):
    strangers = [name for name in overrides if name not in parameters]
    if strangers:
        raise ValueError(f"{strangers} is not a setting of this class")
    skipped = frozenset(config.get("_use_default_values") or [])
    spoken = {key: value for key, value in config.items() if re.match("[^_]", key)}
    for key in skipped & spoken.keys():
        del spoken[key]
    chain = collections.ChainMap(dict(overrides), spoken, dict(parameters))
    values = {key: chain[key] for key in parameters}
    return (
        values,
        sorted(parameters.keys() - spoken.keys() - overrides.keys()),
        sorted(spoken.keys() - parameters.keys()),
    )


def plain(value):
    match value:
        case list() | tuple():
            return list(map(plain, value))
        case dict():
            return {key: plain(part) for key, part in value.items()}
    return value


def config_diff(parameters, one, other):
    differences = collections.defaultdict(dict)
    for component in set().union(one, other):
        match one.get(component), other.get(component):
            case None, there:
                differences[component]["_class_name"] = (None, there["_class_name"])
            case here, None:
                differences[component]["_class_name"] = (here["_class_name"], None)
            case here, there:
                kinds = here["_class_name"], there["_class_name"]
                if len({*kinds}) == 2:
                    differences[component]["_class_name"] = kinds
                mine = effective_config(parameters[kinds[0]], here, {})[0]
                theirs = effective_config(parameters[kinds[1]], there, {})[0]
                for field in mine.keys() & theirs.keys():
                    if plain(mine[field]) != plain(theirs[field]):
                        differences[component][field] = mine[field], theirs[field]
    return dict(differences)


def vae_geometry(config):
    match config:
        case {"_class_name": "AutoencoderKL", "block_out_channels": levels, "latent_channels": c}:
            return round(2.0 ** (len(levels) - 1)), 1, c
        case {"_class_name": "AutoencoderDC", "encoder_block_out_channels": levels}:
            return math.prod(2 for _ in levels[:-1]), 1, config["latent_channels"]
        case {"_class_name": "AutoencoderKLWan" | "AutoencoderKLQwenImage", "dim_mult": levels}:
            patch = config.get("patch_size")
            halvings = [flag for flag in config["temperal_downsample"] if flag]
            space = math.prod(2 for _ in levels[:-1])
            return space if patch is None else patch * space, pow(2, len(halvings)), config["z_dim"]
        case {"_class_name": "AutoencoderKLLTXVideo", "spatio_temporal_scaling": flags}:
            factor = math.prod(2 if flag else 1 for flag in flags)
            return (
                factor * config["patch_size"],
                factor * config["patch_size_t"],
                config["latent_channels"],
            )
        case {"_class_name": "AutoencoderKLCogVideoX", "temporal_compression_ratio": time}:
            levels = config["block_out_channels"]
            return math.prod(2 for _ in levels[:-1]), time, config["latent_channels"]
        case _:
            raise ValueError(config.get("_class_name"))


def sequence_length(vae, denoiser, height, width, frames):
    space, time, channels = vae_geometry(vae)
    side = math.sqrt(denoiser["in_channels"] / channels)
    if side < 1 or not side.is_integer():
        raise ValueError(f"channels: {denoiser['in_channels']} against {channels}")
    match int(side), denoiser["patch_size"]:
        case 1, (long, high, wide):
            pass
        case 1, number:
            long, high, wide = denoiser.get("patch_size_t", 1), number, number
        case k, _:
            long, high, wide = 1, k, k
    if height % (space * high) or width % (space * wide) or frames % time != 1 % time:
        raise ValueError("the size does not divide")
    latent_frames = -(-frames // time)
    if latent_frames % long:
        raise ValueError("the frames do not divide")
    return latent_frames * height * width // (long * high * wide * space * space)


def needed(pipeline, configs):
    _, time, channels = vae_geometry(configs["vae"])
    texts = [configs[name] for name in sorted(configs) if name.startswith("text_encoder")]
    match pipeline, texts:
        case "StableDiffusionPipeline", [clip, *_]:
            yield "in_channels", channels
            yield "cross_attention_dim", clip["hidden_size"]
        case "StableDiffusionXLPipeline", [clip, big]:
            yield "in_channels", channels
            yield "cross_attention_dim", clip["hidden_size"] + big["hidden_size"]
            numbers = itertools.repeat(configs["unet"]["addition_time_embed_dim"], 6)
            yield "projection_class_embeddings_input_dim", big["projection_dim"] + sum(numbers)
        case "StableDiffusion3Pipeline", [clip, big, text]:
            yield "in_channels", channels
            yield "joint_attention_dim", text["d_model"]
            yield "pooled_projection_dim", clip["projection_dim"] + big["projection_dim"]
        case "FluxPipeline", [clip, text]:
            yield "in_channels", channels << 2
            yield "joint_attention_dim", text["d_model"]
            yield "pooled_projection_dim", clip["hidden_size"]
        case "WanPipeline", [text]:
            yield "in_channels", channels
            yield "out_channels", channels
            yield "text_dim", text["d_model"]
        case "WanImageToVideoPipeline", [text]:
            yield "in_channels", sum((channels, channels, time))
            yield "out_channels", channels
            yield "text_dim", text["d_model"]
        case _:
            raise ValueError(f"{pipeline} is not known")


def wiring_errors(pipeline, configs):
    slot = "transformer" if "transformer" in configs else "unet"
    pairs = [(field, configs[slot][field], width) for field, width in needed(pipeline, configs)]
    return {f"{slot}.{field}": (has, width) for field, has, width in pairs if has != width}


def runtime_plan(index, files, dtype, variant):
    named = collections.defaultdict(lambda: "float32")
    if isinstance(dtype, str):
        named.default_factory = lambda: dtype
    else:
        named.update(dtype)
        if "default" in dtype:
            named.default_factory = lambda: dtype["default"]
    plan, special = {}, 0
    for component, entry in index.items():
        match entry:
            case ["diffusers", _] | ("diffusers", _):
                stem = "diffusion_pytorch_model"
            case ["transformers", _] | ("transformers", _):
                stem = "model"
            case _:
                continue
        if component.startswith("_"):
            continue
        there = set(files.get(component, []))
        varied = {f"{stem}.{variant}.safetensors"} & there if variant else set()
        special += len(varied)
        for file in varied or {f"{stem}.safetensors"} & there:
            plan[component] = (named[component], file)
    if variant and special == 0:
        raise ValueError(f"there is no {variant} here")
    return plan
