"""Step by step, with loops and no table; halvings are counted one by one."""


def effective_config(parameters, config, overrides):
    for name in overrides:
        if name not in parameters:
            raise ValueError(name)
    left_to_class = []
    if "_use_default_values" in config:
        left_to_class = list(config["_use_default_values"])
    values, defaulted, ignored = {}, [], []
    for name in parameters:
        if name in overrides:
            values[name] = overrides[name]
        elif name in config and name not in left_to_class:
            values[name] = config[name]
        else:
            values[name] = parameters[name]
            defaulted.append(name)
    for name in config:
        if name[0] == "_" or name in parameters or name in left_to_class:
            continue
        ignored.append(name)
    defaulted.sort()
    ignored.sort()
    return values, defaulted, ignored


def same(a, b):
    sequences = (list, tuple)
    if isinstance(a, sequences) and isinstance(b, sequences):
        if len(a) != len(b):
            return False
        for x, y in zip(a, b):
            if not same(x, y):
                return False
        return True
    return a == b


def config_diff(parameters, one, other):
    result = {}
    for component in list(one) + [name for name in other if name not in one]:
        if component not in other:
            result[component] = {"_class_name": (one[component]["_class_name"], None)}
            continue
        if component not in one:
            result[component] = {"_class_name": (None, other[component]["_class_name"])}
            continue
        a, b = one[component], other[component]
        mine, theirs = parameters[a["_class_name"]], parameters[b["_class_name"]]
        left, _, _ = effective_config(mine, a, {})
        right, _, _ = effective_config(theirs, b, {})
        entry = {}
        if a["_class_name"] != b["_class_name"]:
            entry["_class_name"] = (a["_class_name"], b["_class_name"])
        for name in mine:
            if name in theirs and not same(left[name], right[name]):
                entry[name] = (left[name], right[name])
        if len(entry) > 0:
            result[component] = entry
    return result


def vae_geometry(config):
    name = config["_class_name"]
    space, time = 1, 1
    if name == "AutoencoderKL" or name == "AutoencoderKLCogVideoX":
        for _ in config["block_out_channels"][1:]:
            space *= 2
        if name == "AutoencoderKLCogVideoX":
            time = config["temporal_compression_ratio"]
        return space, time, config["latent_channels"]
    if name == "AutoencoderDC":
        for _ in config["encoder_block_out_channels"][1:]:
            space *= 2
        return space, time, config["latent_channels"]
    if name == "AutoencoderKLWan" or name == "AutoencoderKLQwenImage":
        if config.get("patch_size") is not None:
            space = config["patch_size"]
        for _ in config["dim_mult"][1:]:
            space *= 2
        for halves in config["temperal_downsample"]:
            if halves:
                time *= 2
        return space, time, config["z_dim"]
    if name == "AutoencoderKLLTXVideo":
        space, time = config["patch_size"], config["patch_size_t"]
        for halves in config["spatio_temporal_scaling"]:
            if halves:
                space, time = space * 2, time * 2
        return space, time, config["latent_channels"]
    raise ValueError(name)


def exactly(whole, part, of):
    if whole % part != 0:
        raise ValueError(f"{of}: {whole} is no multiple of {part}")
    return whole // part


def sequence_length(vae, denoiser, height, width, frames):
    s, t, c = vae_geometry(vae)
    ratio = exactly(denoiser["in_channels"], c, "in_channels")
    k = 1
    while k * k < ratio:
        k += 1
    if k * k != ratio:
        raise ValueError("in_channels")
    if k > 1:
        pt, ph, pw = 1, k, k
    elif isinstance(denoiser["patch_size"], (list, tuple)):
        pt, ph, pw = denoiser["patch_size"]
    else:
        ph = pw = denoiser["patch_size"]
        pt = denoiser["patch_size_t"] if "patch_size_t" in denoiser else 1
    latent_frames = 1 + exactly(frames - 1, t, "frames")
    rows = exactly(exactly(height, s, "height"), ph, "rows")
    columns = exactly(exactly(width, s, "width"), pw, "columns")
    return exactly(latent_frames, pt, "latent frames") * rows * columns


def wiring_errors(pipeline, configs):
    _, t, c = vae_geometry(configs["vae"])
    errors = {}

    def compare(component, field, needed):
        has = configs[component][field]
        if has != needed:
            errors[component + "." + field] = (has, needed)

    if pipeline == "StableDiffusionPipeline":
        compare("unet", "in_channels", c)
        compare("unet", "cross_attention_dim", configs["text_encoder"]["hidden_size"])
    elif pipeline == "StableDiffusionXLPipeline":
        first, second = configs["text_encoder"], configs["text_encoder_2"]
        compare("unet", "in_channels", c)
        compare("unet", "cross_attention_dim", first["hidden_size"] + second["hidden_size"])
        numbers = configs["unet"]["addition_time_embed_dim"] * 6
        width = numbers + second["projection_dim"]
        compare("unet", "projection_class_embeddings_input_dim", width)
    elif pipeline == "StableDiffusion3Pipeline":
        first, second = configs["text_encoder"], configs["text_encoder_2"]
        compare("transformer", "in_channels", c)
        compare("transformer", "joint_attention_dim", configs["text_encoder_3"]["d_model"])
        pooled = first["projection_dim"] + second["projection_dim"]
        compare("transformer", "pooled_projection_dim", pooled)
    elif pipeline == "FluxPipeline":
        compare("transformer", "in_channels", c * 4)
        compare("transformer", "joint_attention_dim", configs["text_encoder_2"]["d_model"])
        compare("transformer", "pooled_projection_dim", configs["text_encoder"]["hidden_size"])
    elif pipeline in ("WanPipeline", "WanImageToVideoPipeline"):
        compare("transformer", "in_channels", c if pipeline == "WanPipeline" else c + t + c)
        compare("transformer", "text_dim", configs["text_encoder"]["d_model"])
        compare("transformer", "out_channels", c)
    else:
        raise ValueError(pipeline)
    return errors


def runtime_plan(index, files, dtype, variant):
    plan = {}
    found = False
    for component in index:
        entry = index[component]
        if component[0] == "_" or type(entry) not in (list, tuple) or len(entry) != 2:
            continue
        if entry[0] == "diffusers":
            stem = "diffusion_pytorch_model"
        elif entry[0] == "transformers":
            stem = "model"
        else:
            continue
        names = files[component] if component in files else []
        plain = stem + ".safetensors"
        other = stem + "." + str(variant) + ".safetensors"
        if variant is not None and other in names:
            file, found = other, True
        elif plain in names:
            file = plain
        else:
            continue
        if isinstance(dtype, str):
            word = dtype
        elif component in dtype:
            word = dtype[component]
        elif "default" in dtype:
            word = dtype["default"]
        else:
            word = "float32"
        plan[component] = (word, file)
    if variant is not None and not found:
        raise ValueError(variant)
    return plan
