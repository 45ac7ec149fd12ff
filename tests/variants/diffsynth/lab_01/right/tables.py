"""Everything that is a fact of the library stands in a table; answers hold lists for tuples."""

from fractions import Fraction
from functools import reduce
from operator import mul

SPACE = {
    "AutoencoderKL": lambda c: 2 ** len(c["block_out_channels"]) // 2,
    "AutoencoderDC": lambda c: 1 << (len(c["encoder_block_out_channels"]) - 1),
    "AutoencoderKLWan": lambda c: (c["patch_size"] or 1) << (len(c["dim_mult"]) - 1),
    "AutoencoderKLQwenImage": lambda c: 1 << (len(c["dim_mult"]) - 1),
    "AutoencoderKLLTXVideo": lambda c: (
        c["patch_size"] << list(c["spatio_temporal_scaling"]).count(True)
    ),
    "AutoencoderKLCogVideoX": lambda c: 2 ** len(c["block_out_channels"]) // 2,
}
TIME = {
    "AutoencoderKL": lambda c: 1,
    "AutoencoderDC": lambda c: 1,
    "AutoencoderKLWan": lambda c: 1 << list(c["temperal_downsample"]).count(True),
    "AutoencoderKLQwenImage": lambda c: 1 << list(c["temperal_downsample"]).count(True),
    "AutoencoderKLLTXVideo": lambda c: (
        c["patch_size_t"] << list(c["spatio_temporal_scaling"]).count(True)
    ),
    "AutoencoderKLCogVideoX": lambda c: c["temporal_compression_ratio"],
}


def spoken(config):
    silent = {"_use_default_values", *config.get("_use_default_values", [])}
    return {k: config[k] for k in sorted(config) if k not in silent and not k.startswith("_")}


def effective_config(parameters, config, overrides):
    if not set(overrides).issubset(parameters):
        raise ValueError(", ".join(set(overrides).difference(parameters)))
    said = spoken(config)
    everything = [overrides, said, parameters]
    values = {
        name: next(layer[name] for layer in everything if name in layer) for name in parameters
    }
    defaulted = [name for name in sorted(parameters) if name not in overrides and name not in said]
    return [values, defaulted, [name for name in said if name not in parameters]]


def frozen(value):
    if isinstance(value, (list, tuple)):
        return ("sequence", *map(frozen, value))
    if isinstance(value, dict):
        return ("mapping", *sorted((k, frozen(v)) for k, v in value.items()))
    return value


def config_diff(parameters, one, other):
    def told(side, component):
        if component not in side:
            return {"_class_name": None}
        kind = side[component]["_class_name"]
        return {"_class_name": kind, **effective_config(parameters[kind], side[component], {})[0]}

    answer = {}
    for component in {**other, **one}:
        left, right = told(one, component), told(other, component)
        shared = [name for name in left if name in right]
        pairs = {name: [left[name], right[name]] for name in shared}
        answer[component] = {
            name: pair for name, pair in pairs.items() if frozen(pair[0]) != frozen(pair[1])
        }
    return {component: fields for component, fields in answer.items() if fields}


def vae_geometry(config):
    kind = config.get("_class_name")
    if kind not in SPACE:
        raise ValueError(f"{kind}?")
    channels = config["z_dim"] if "dim_mult" in config else config["latent_channels"]
    return [SPACE[kind](config), TIME[kind](config), channels]


def sequence_length(vae, denoiser, height, width, frames):
    s, t, c = vae_geometry(vae)
    squares = {k * k * c: k for k in range(1, 20)}
    if denoiser["in_channels"] not in squares:
        raise ValueError("channels")
    packed, patch = squares[denoiser["in_channels"]], denoiser["patch_size"]
    sides = (
        list(patch)
        if hasattr(patch, "__len__")
        else [denoiser.get("patch_size_t", 1), *[patch] * 2]
    )
    if packed != 1:
        sides = [1, packed, packed]
    counts = [
        (Fraction(frames - 1, t) + 1, sides[0]),
        (Fraction(height, s), sides[1]),
        (Fraction(width, s), sides[2]),
    ]
    parts = [count for whole, side in counts for count in (whole, whole / side)]
    if any(part.denominator != 1 for part in parts):
        raise ValueError("it does not come out even")
    return int(reduce(mul, parts[1::2]))


def encoder(number, field):
    end = "" if number == 1 else f"_{number}"
    return lambda configs: configs["text_encoder" + end][field]


def latent(configs):
    return vae_geometry(configs["vae"])[2]


BORDERS = {
    "StableDiffusionPipeline": {
        "in_channels": latent,
        "cross_attention_dim": encoder(1, "hidden_size"),
    },
    "StableDiffusionXLPipeline": {
        "in_channels": latent,
        "cross_attention_dim": lambda c: (
            encoder(1, "hidden_size")(c) + encoder(2, "hidden_size")(c)
        ),
        "projection_class_embeddings_input_dim": lambda c: (
            c["unet"]["addition_time_embed_dim"] * 6 + encoder(2, "projection_dim")(c)
        ),
    },
    "StableDiffusion3Pipeline": {
        "in_channels": latent,
        "joint_attention_dim": encoder(3, "d_model"),
        "pooled_projection_dim": lambda c: sum(encoder(i, "projection_dim")(c) for i in (1, 2)),
    },
    "FluxPipeline": {
        "in_channels": lambda c: latent(c) * 2**2,
        "joint_attention_dim": encoder(2, "d_model"),
        "pooled_projection_dim": encoder(1, "hidden_size"),
    },
    "WanPipeline": {
        "in_channels": latent,
        "text_dim": encoder(1, "d_model"),
        "out_channels": latent,
    },
    "WanImageToVideoPipeline": {
        "in_channels": lambda c: latent(c) + vae_geometry(c["vae"])[1] + latent(c),
        "text_dim": encoder(1, "d_model"),
        "out_channels": latent,
    },
}


def wiring_errors(pipeline, configs):
    try:
        borders = BORDERS[pipeline]
    except KeyError:
        raise ValueError(pipeline) from None
    slot = next(name for name in ("transformer", "unet") if name in configs)
    found = {}
    for field in sorted(borders):
        has, needed = configs[slot][field], borders[field](configs)
        if has != needed:
            found[f"{slot}.{field}"] = [has, needed]
    return found


def runtime_plan(index, files, dtype, variant):
    words = dtype if not isinstance(dtype, str) else {"default": dtype}
    stems = dict(diffusers="diffusion_pytorch_model", transformers="model")
    pairs = {
        name: entry[0]
        for name, entry in index.items()
        if isinstance(entry, (list, tuple)) and len(entry) == 2 and entry[0] in stems
    }
    wishes = {
        name: [f"{stems[of]}.{end}" for end in (f"{variant}.safetensors", "safetensors")]
        for name, of in pairs.items()
        if not name.startswith("_")
    }
    if variant is None:
        wishes = {name: wish[1:] for name, wish in wishes.items()}
    taken = {
        name: next((file for file in wish if file in files.get(name, [])), None)
        for name, wish in wishes.items()
    }
    if variant is not None and not any(taken[name] == wishes[name][0] for name in taken):
        raise ValueError(f"nobody has {variant}")
    return {
        name: [words.get(name, words.get("default", "float32")), file]
        for name, file in taken.items()
        if file is not None
    }
