"""Lab 01 · Pipeline config reading: what a few small JSON files say before a weight is read.

Goal: read a pipeline from its configuration. Which values are really used, in what two pipelines
differ, how much a VAE compresses, how long the transformer's sequence is, whether the parts fit
together, and in which precision and from which file each part comes. Not from a README, and not
from the family's name.

A config here is a dict as json.loads gives it: lists where the class has tuples, None for null,
and `_class_name` among the fields. `parameters` is {name of a constructor argument: its default},
of one class. The order of a dict's keys is free, and a tuple may stand for a list.

Symbols: C = channels of the latents, s, τ = how much a VAE compresses in space and in time, H, W =
pixels, F = frames, p = side of a patch in latent pixels.

`diffusers` cannot be imported in this file, and torch is not needed.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

Config = Mapping[str, Any]


def effective_config(
    parameters: Mapping[str, Any], config: Config, overrides: Mapping[str, Any]
) -> tuple[dict[str, Any], list[str], list[str]]:
    """1.1 · What a class really uses of a config: SomeClass.from_config(config, **overrides).

    parameters: {name: default} of the class. config: from a file, or from an object in memory; it
    may be of another class. overrides: what the caller says besides.

    Returns (values, defaulted, ignored).
    values: {name: value} for every name in parameters; an override beats the config, the config
    beats the default. None, 0 and False in a config are values like others.
    defaulted: the sorted names that nobody has said, so that the class's default decided.
    ignored: the sorted public names said in config that the class does not have.
    A name that begins with _ is no setting. The names that config["_use_default_values"] lists,
    where that is there, count as not said: the object took its class's defaults for them, and
    another class takes its own. An override that the class does not have: ValueError.

    Source: ConfigMixin.from_config, its extract_init_dict, and register_to_config. (They drop an
    override that no class knows without a word.)

    >>> parameters = {"spacing": "linspace", "clip": True, "steps": 1000}
    >>> effective_config(parameters, {"clip": False, "rho": 7, "_class_name": "A"}, {"steps": 10})
    ({'spacing': 'linspace', 'clip': False, 'steps': 10}, ['spacing'], ['rho'])
    """
    ### BEGIN SOLUTION
    unknown = sorted(set(overrides) - set(parameters))
    if unknown:
        raise ValueError(f"the class has no {unknown[0]}")
    unsaid = config.get("_use_default_values", ())
    said = {
        name: value
        for name, value in config.items()
        if not name.startswith("_") and name not in unsaid
    }
    known = {name: value for name, value in said.items() if name in parameters}
    values = {**parameters, **known, **overrides}
    defaulted = sorted(set(parameters) - set(known) - set(overrides))
    return values, defaulted, sorted(set(said) - set(parameters))
    ### END SOLUTION


def config_diff(
    parameters: Mapping[str, Mapping[str, Any]],
    one: Mapping[str, Config],
    other: Mapping[str, Config],
) -> dict[str, dict[str, tuple[Any, Any]]]:
    """1.2 · In what two pipelines differ in effect, whatever their files look like.

    parameters: {class name: its {name: default}}, for every class that occurs. one, other:
    {component: config}, each config with its `_class_name`.

    Returns {component: {field: (in one, in other)}} for the components that differ. A field differs
    when the two values of 1.1 (without overrides) differ; a list and a tuple with the same entries
    do not. Where the classes differ, "_class_name" is a field too, and of the others only those
    that both classes have are compared, each with its own class's default. A component that only
    one side has gives {"_class_name": (name, None)} or {"_class_name": (None, name)} and nothing
    else. Other names that begin with _ (version, path) never differ.

    Source: the `.config` of the objects that both configs become.

    >>> parameters = {"A": {"steps": 10, "clip": True}, "B": {"steps": 20}}
    >>> one, other = {"x": {"_class_name": "A", "steps": 10}}, {"x": {"_class_name": "A"}}
    >>> config_diff(parameters, one, other)
    {}
    >>> config_diff(parameters, other, {"x": {"_class_name": "B"}})
    {'x': {'_class_name': ('A', 'B'), 'steps': (10, 20)}}
    """

    ### BEGIN SOLUTION
    def listed(value: Any) -> Any:
        return [listed(part) for part in value] if isinstance(value, list | tuple) else value

    found = {}
    for component in sorted(set(one) | set(other)):
        pair = [side.get(component) for side in (one, other)]
        names = [config["_class_name"] if config is not None else None for config in pair]
        fields: dict[str, tuple[Any, Any]] = {}
        if names[0] != names[1]:
            fields["_class_name"] = (names[0], names[1])
        if None not in names:
            left, right = (
                effective_config(parameters[name], config, {})[0]
                for name, config in zip(names, pair, strict=True)
            )
            for field in left:
                if field in right and listed(left[field]) != listed(right[field]):
                    fields[field] = (left[field], right[field])
        if fields:
            found[component] = fields
    return found
    ### END SOLUTION


def vae_geometry(config: Config) -> tuple[int, int, int]:
    """1.3 · How much a VAE compresses, from how it is built: (s, τ, C), three ints.

    config: every field said, with its `_class_name`. s: pixels to a latent pixel, in height and in
    width. τ: after the first frame, frames to a latent frame; 1 for images. C: latent channels.

    Each class has its own words:
      AutoencoderKL              halves between two entries of block_out_channels
      AutoencoderDC              halves between two entries of encoder_block_out_channels
      AutoencoderKLWan           folds patch_size × patch_size pixels first (None: 1), then halves
                                 space between two entries of dim_mult, and time once for each true
                                 entry of temperal_downsample (it is spelt so)
      AutoencoderKLQwenImage     the same, without patch_size
      AutoencoderKLLTXVideo      folds patch_size × patch_size pixels and patch_size_t frames first,
                                 then halves space and time once for each true entry of
                                 spatio_temporal_scaling
      AutoencoderKLCogVideoX     halves space between two entries of block_out_channels; time by
                                 temporal_compression_ratio
    C is latent_channels, in Wan and Qwen z_dim. Another class: ValueError.

    Source: the encoders of these classes in diffusers.models.autoencoders.

    >>> vae_geometry({"_class_name": "AutoencoderKL", "block_out_channels": [8, 8, 8],
    ...               "latent_channels": 4})
    (4, 1, 4)
    """
    ### BEGIN SOLUTION
    kind = config["_class_name"]
    if kind == "AutoencoderKL":
        return 2 ** (len(config["block_out_channels"]) - 1), 1, config["latent_channels"]
    if kind == "AutoencoderDC":
        levels = len(config["encoder_block_out_channels"])
        return 2 ** (levels - 1), 1, config["latent_channels"]
    if kind in ("AutoencoderKLWan", "AutoencoderKLQwenImage"):
        folded = config.get("patch_size") or 1
        spatial = folded * 2 ** (len(config["dim_mult"]) - 1)
        return spatial, 2 ** sum(config["temperal_downsample"]), config["z_dim"]
    if kind == "AutoencoderKLLTXVideo":
        halved = 2 ** sum(config["spatio_temporal_scaling"])
        spatial = config["patch_size"] * halved
        return spatial, config["patch_size_t"] * halved, config["latent_channels"]
    if kind == "AutoencoderKLCogVideoX":
        spatial = 2 ** (len(config["block_out_channels"]) - 1)
        return spatial, config["temporal_compression_ratio"], config["latent_channels"]
    raise ValueError(f"no rule for the VAE class {kind}")
    ### END SOLUTION


def sequence_length(vae: Config, denoiser: Config, height: int, width: int, frames: int) -> int:
    """1.4 · How many picture tokens the transformer attends to: one int, without the text's tokens.

    vae: a config of 1.3. denoiser: a config of SD3Transformer2DModel, FluxTransformer2DModel,
    QwenImageTransformer2DModel, WanTransformer3DModel or LTXVideoTransformer3DModel. height, width:
    pixels. frames: 1 for an image.

    Two ways lead to tokens. Either the network cuts patches itself: its in_channels is C, and its
    patch_size says how large they are: a number for height and width, or Wan's (time, height,
    width). Or the pipeline packs k × k latent pixels into channels before: in_channels is k²·C with
    k above 1, a token is one packed pixel, and the config's patch_size says nothing more.

    A video of F frames has (F − 1)/τ + 1 latent frames. Pixels that do not divide into latent
    pixels and those into patches, frames that are not τ·j + 1, latent frames that do not divide,
    and in_channels that are no k²·C: ValueError. (The pipelines round down.)

    Source: hidden_states as they enter the first block of these transformers.

    >>> vae = {"_class_name": "AutoencoderKL", "block_out_channels": [8, 8], "latent_channels": 4}
    >>> sd3 = {"_class_name": "SD3Transformer2DModel", "in_channels": 4, "patch_size": 2}
    >>> flux = {"_class_name": "FluxTransformer2DModel", "in_channels": 16, "patch_size": 1}
    >>> sequence_length(vae, sd3, 32, 48, 1), sequence_length(vae, flux, 32, 48, 1)
    (96, 96)
    """
    ### BEGIN SOLUTION
    spatial, temporal, channels = vae_geometry(vae)
    side = math.isqrt(max(denoiser["in_channels"] // channels, 0))
    if side < 1 or side * side * channels != denoiser["in_channels"]:
        raise ValueError(f"in_channels {denoiser['in_channels']} is no k²·{channels}")
    patch = denoiser["patch_size"]
    if side > 1:
        patch = (1, side, side)
    elif isinstance(patch, int):
        patch = (1, patch, patch)
    if (frames - 1) % temporal:
        raise ValueError(f"{frames} frames are not {temporal}·j + 1")
    latent = [(frames - 1) // temporal + 1]
    for pixels in (height, width):
        if pixels % spatial:
            raise ValueError(f"{pixels} pixels do not divide by {spatial}")
        latent.append(pixels // spatial)
    if any(size % cut for size, cut in zip(latent, patch, strict=True)):
        raise ValueError(f"latents of {latent} do not divide into patches of {list(patch)}")
    return math.prod(size // cut for size, cut in zip(latent, patch, strict=True))
    ### END SOLUTION


def wiring_errors(pipeline: str, configs: Mapping[str, Config]) -> dict[str, tuple[int, int]]:
    """1.5 · Which parts of a pipeline do not fit: {"component.field": (has, needs)}, {} if all do.

    pipeline: StableDiffusionPipeline, StableDiffusionXLPipeline, StableDiffusion3Pipeline,
    FluxPipeline, WanPipeline or WanImageToVideoPipeline; another: ValueError. configs: {component:
    config}: the vae, the unet or transformer, and text_encoder, text_encoder_2, text_encoder_3 as
    far as the pipeline has them. A CLIP has hidden_size and projection_dim, a T5 has d_model.

    The fields are those of the unet or transformer, and what each needs follows from the others
    (C, τ as in 1.3; t1, t2, t3 the encoders):
      every one      in_channels: C; packed by 2 × 2 in Flux; 2·C + τ in WanImageToVideo (noise, a
                     mask of τ channels, the first frame)
      SD             cross_attention_dim: t1's states
      SDXL           cross_attention_dim: the states of t1 and t2 side by side
                     projection_class_embeddings_input_dim: six numbers, each embedded in
                     addition_time_embed_dim, and t2's projection
      SD3            joint_attention_dim: t3's states; pooled_projection_dim: the projections of t1
                     and t2
      Flux           joint_attention_dim: t2's states; pooled_projection_dim: t1's pooled state,
                     which no projection follows
      both Wan       text_dim: t1's states; out_channels: C

    Source: the pipelines' prepare_latents, encode_prompt and __call__. Where parts do not fit, a
    call fails, mostly in a matrix product deep in the network.

    >>> vae = {"_class_name": "AutoencoderKL", "block_out_channels": [8, 8], "latent_channels": 4}
    >>> unet, clip = {"in_channels": 4, "cross_attention_dim": 32}, {"hidden_size": 24}
    >>> parts = {"vae": vae, "unet": unet, "text_encoder": clip}
    >>> wiring_errors("StableDiffusionPipeline", parts)
    {'unet.cross_attention_dim': (32, 24)}
    """
    ### BEGIN SOLUTION
    _, temporal, channels = vae_geometry(configs["vae"])
    encoders = [configs.get("text_encoder" + end, {}) for end in ("", "_2", "_3")]
    hidden = [encoder.get("d_model", encoder.get("hidden_size", 0)) for encoder in encoders]
    projected = [encoder.get("projection_dim", 0) for encoder in encoders]
    denoiser = "unet" if "unet" in configs else "transformer"
    needs = {"in_channels": channels}
    if pipeline == "StableDiffusionPipeline":
        needs["cross_attention_dim"] = hidden[0]
    elif pipeline == "StableDiffusionXLPipeline":
        needs["cross_attention_dim"] = hidden[0] + hidden[1]
        embedded = 6 * configs[denoiser]["addition_time_embed_dim"]
        needs["projection_class_embeddings_input_dim"] = embedded + projected[1]
    elif pipeline == "StableDiffusion3Pipeline":
        needs["joint_attention_dim"] = hidden[2]
        needs["pooled_projection_dim"] = projected[0] + projected[1]
    elif pipeline == "FluxPipeline":
        needs["in_channels"] = 4 * channels
        needs["joint_attention_dim"] = hidden[1]
        needs["pooled_projection_dim"] = hidden[0]
    elif pipeline in ("WanPipeline", "WanImageToVideoPipeline"):
        if pipeline == "WanImageToVideoPipeline":
            needs["in_channels"] = 2 * channels + temporal
        needs["text_dim"] = hidden[0]
        needs["out_channels"] = channels
    else:
        raise ValueError(f"no rule for {pipeline}")
    return {
        f"{denoiser}.{field}": (configs[denoiser][field], needed)
        for field, needed in needs.items()
        if configs[denoiser][field] != needed
    }
    ### END SOLUTION


def runtime_plan(
    index: Mapping[str, Any],
    files: Mapping[str, Sequence[str]],
    dtype: str | Mapping[str, str],
    variant: str | None,
) -> dict[str, tuple[str, str]]:
    """1.6 · In which precision and from which file each part is loaded: {component: (dtype, file)}.

    index: model_index.json. A component is a pair [library, class]; names with _ in front, settings
    and [null, null] are none. files: {component: the names in its folder}. Only components with
    weights are in the answer: those whose folder has the file below.

    dtype: a name for all ("float16"), or {component, or "default": name}. A component that a dict
    does not name gets what "default" says, and without that "float32": not the first one, and not
    what the file holds. variant: None, or a word such as "fp16".

    The file is diffusion_pytorch_model.safetensors for the library diffusers and model.safetensors
    for transformers. With a variant the word stands before the last dot
    (model.fp16.safetensors), where the component's folder has such a file; a component without one
    takes the plain file. No component has one: ValueError. A variant is a file's name and says
    nothing of the dtype in memory.

    Source: DiffusionPipeline.from_pretrained and variant_compatible_siblings in
    diffusers.pipelines.pipeline_loading_utils.

    >>> index = {"_class_name": "P", "unet": ["diffusers", "U"], "vae": ["diffusers", "V"]}
    >>> plain, half = (f"diffusion_pytorch_model.{end}safetensors" for end in ("", "fp16."))
    >>> plan = runtime_plan(index, {"unet": [plain, half], "vae": [plain]}, "bfloat16", "fp16")
    >>> plan == {"unet": ("bfloat16", half), "vae": ("bfloat16", plain)}
    True
    """
    ### BEGIN SOLUTION
    stems = {"diffusers": "diffusion_pytorch_model", "transformers": "model"}
    plan, varied = {}, False
    for component, pair in index.items():
        if component.startswith("_") or not isinstance(pair, list | tuple) or len(pair) != 2:
            continue
        stem, there = stems.get(pair[0]), files.get(component, ())
        chosen = f"{stem}.safetensors"
        if variant is not None and f"{stem}.{variant}.safetensors" in there:
            chosen, varied = f"{stem}.{variant}.safetensors", True
        if chosen not in there:
            continue
        precision = dtype
        if not isinstance(dtype, str):
            precision = dtype.get(component, dtype.get("default", "float32"))
        plan[component] = (precision, chosen)
    if variant is not None and not varied:
        raise ValueError(f"no component has a file of the variant {variant}")
    return plan
    ### END SOLUTION
