"""Lab 01 of diffsynth: what the learner reads in configs against what diffusers makes of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from infralens.examiner import Draw, assert_equals, assert_raises, todo, unpack
from infralens.suites import configs as live
from infralens.suites.configs import Config, Side

EULER, DDIM, PNDM = "EulerDiscreteScheduler", "DDIMScheduler", "PNDMScheduler"
MULTISTEP, FLOW = "DPMSolverMultistepScheduler", "FlowMatchEulerDiscreteScheduler"
KL, UNET, SD3 = "AutoencoderKL", "UNet2DConditionModel", "SD3Transformer2DModel"

# 1.1

PARTS = ("values", "defaulted", "ignored")


def draw_betas(draw: Draw) -> dict[str, Any]:
    """Two fields of a schedule, said and not at their defaults."""
    return {"beta_start": draw.uniform(0.002, 0.009), "beta_end": draw.uniform(0.05, 0.15)}


def draw_config(draw: Draw, name: str, kept: str) -> Config:
    """The config of a scheduler of this class, of which a few fields were said."""
    fields = {} if name == FLOW else draw_betas(draw)
    config = {**live.class_named(name)(**fields).config, "_class_name": name}
    if kept == "in memory":
        return config
    del config["_use_default_values"]
    return live.as_file(config)


def used(name: str, config: Config, overrides: Config) -> tuple[Config, list[str], list[str]]:
    """What the object that from_config makes says of itself."""
    parameters, made = live.parameters_of(name), live.made(name, config, overrides).config
    values = {field: made[field] for field in parameters}
    others = sorted(field for field in made if field not in parameters and field[0] != "_")
    return values, sorted(made.get("_use_default_values", ())), others


def assert_used(candidate: Any, name: str, config: Config, overrides: Config, what: str) -> None:
    """The three answers are what the object of this class says of itself."""
    answer = candidate.effective_config(live.parameters_of(name), config, overrides)
    parts = unpack(answer, *PARTS)
    for place, (part, called) in enumerate(zip(parts, PARTS, strict=True)):
        assert_equals(
            part,
            library=lambda place=place: used(name, config, overrides)[place],  # type: ignore[misc]
            what=f"{called} for {what}",
        )


PAIRS = [(EULER, DDIM), (DDIM, EULER), (MULTISTEP, PNDM), (FLOW, EULER), (EULER, FLOW)]


@todo("1.1")
@pytest.mark.parametrize("kept", ["saved", "in memory"])
@pytest.mark.parametrize(("name", "source"), PAIRS)
def test_three_layers_and_what_nobody_said(
    candidate: Any, draw: Draw, name: str, source: str, kept: str
) -> None:
    """Override beats config, config beats default; what was left to a class counts as unsaid."""
    config = draw_config(draw, source, kept)
    overrides = {"num_train_timesteps": 100 * draw.integer(2, 9)}
    assert_used(candidate, name, config, overrides, f"{name} from a config of {source} {kept}")


SWITCHES = ("use_quant_conv", "use_post_quant_conv", "mid_block_add_attention", "force_upcast")


@todo("1.1", guards="values that are not true, and names that no class has")
def test_none_zero_and_false_are_values(candidate: Any, draw: Draw) -> None:
    """None, 0 and False that were said are used; a name that no class has is ignored."""
    off, overridden, kept = draw.sample(SWITCHES, 3)
    config = live.kl(2, draw.integer(3, 6), **{off: False, overridden: True, kept: True})
    config["a_setting_of_tomorrow"] = draw.integer(1, 9)
    del config["sample_size"], config["act_fn"]
    config["shift_factor"] = draw.uniform(0.1, 0.9)
    overrides = {overridden: False, "shift_factor": None, "scaling_factor": 0}
    assert_used(candidate, KL, config, overrides, "AutoencoderKL")
    config["_class_name"] = "AutoencoderOfTomorrow"
    assert_used(candidate, KL, config, {}, "AutoencoderKL from a class of tomorrow")
    said = live.DENOISERS[SD3](in_channels=draw.integer(3, 6), out_channels=None)
    assert_used(candidate, SD3, said, {}, "SD3Transformer2DModel with a null that is no default")


@todo("1.1", guards="a config that says nothing")
def test_a_bare_config_leaves_everything_to_the_class(candidate: Any, draw: Draw) -> None:
    """With nothing said all values are the class's, and all names are listed."""
    name = draw.choice([EULER, DDIM, MULTISTEP, FLOW])
    config = {"_class_name": name, "_diffusers_version": "0.30.0"}
    assert_used(candidate, name, config, {}, f"a bare {name}")
    overrides = {"num_train_timesteps": draw.integer(2, 9)}
    assert_used(candidate, name, {}, overrides, f"{name} with an override alone")


@todo("1.1")
def test_an_override_that_the_class_does_not_have_is_an_error(candidate: Any, draw: Draw) -> None:
    """A misspelt override, or one that only the config's class has, raises ValueError."""
    config = draw_config(draw, DDIM, "saved")
    parameters = live.parameters_of(EULER)
    name = draw.choice(["timestep_spacing", "prediction_type", "num_train_timesteps"])
    place = draw.integer(1, len(name) - 2)
    for wrong in (name[:place] + name[place + 1 :], "clip_sample", "set_alpha_to_one"):
        assert_raises(
            lambda wrong=wrong: candidate.effective_config(  # type: ignore[misc]
                parameters, config, {wrong: config.get(wrong, 10)}
            ),
            "ValueError",
            what=f"the override {wrong} for {EULER}",
        )


# 1.2


def _listed(value: Any) -> Any:
    return [_listed(part) for part in value] if isinstance(value, list | tuple) else value


def differences(one: Side, other: Side) -> dict[str, dict[str, tuple[Any, Any]]]:
    """In what the objects of two pipelines differ."""
    found: dict[str, dict[str, tuple[Any, Any]]] = {}
    for component in {**one, **other}:
        a, b = (side.get(component, {"_class_name": None}) for side in (one, other))
        fields = {}
        if a["_class_name"] != b["_class_name"]:
            fields["_class_name"] = (a["_class_name"], b["_class_name"])
        if component in one and component in other:
            left, right = (live.made(side["_class_name"], side).config for side in (a, b))
            mine, theirs = (set(live.parameters_of(side["_class_name"])) for side in (a, b))
            for field in mine & theirs:
                if _listed(left[field]) != _listed(right[field]):
                    fields[field] = (left[field], right[field])
        if fields:
            found[component] = fields
    return found


def assert_differ(candidate: Any, one: Side, other: Side, what: str) -> None:
    """The answer names the differences of the objects, and no others."""
    classes = {config["_class_name"] for side in (one, other) for config in side.values()}
    parameters = {name: live.parameters_of(name) for name in sorted(classes)}
    answer = candidate.config_diff(parameters, one, other)
    assert_equals(answer, library=lambda: differences(one, other), what=what)


def bare(name: str, **fields: Any) -> Config:
    """A config of which only these fields are said."""
    return {"_class_name": name, **fields}


def draw_unet(draw: Draw) -> Config:
    width = 8 * draw.integer(2, 6)
    return live.DENOISERS[UNET](in_channels=4, out_channels=4, cross_attention_dim=width)


@todo("1.2")
def test_what_is_written_out_is_no_difference(candidate: Any, draw: Draw) -> None:
    """A default written out, another version or path, and a tuple for a list are no differences."""
    betas, channels = draw_betas(draw), draw.integer(3, 6)
    vae, unet = live.kl(2, channels), draw_unet(draw)
    in_memory = {name: tuple(v) if isinstance(v, list) else v for name, v in vae.items()}
    one = {"scheduler": bare(EULER, **betas), "vae": in_memory, "unet": unet}
    written = {**live.saved(EULER, **betas), "_diffusers_version": "0.30.0"}
    other = {
        "scheduler": {**written, "_name_or_path": "a/b"},
        "vae": vae,
        "unet": {**unet, "cross_attention_dim": unet["cross_attention_dim"] + 8},
    }
    assert_differ(candidate, one, other, "the differences of two pipelines")
    assert_differ(candidate, other, one, "the differences, the other way round")


@todo("1.2", guards="fields that one side leaves to its class")
def test_a_field_that_one_side_says_differs_from_the_default(candidate: Any, draw: Draw) -> None:
    """A field that only one side says is held against the default of the other side's class."""
    one: Side = {
        "scheduler": bare(DDIM, clip_sample=False, **draw_betas(draw)),
        "vae": bare(KL, latent_channels=draw.integer(5, 9)),
    }
    other: Side = {
        "scheduler": bare(DDIM, steps_offset=draw.integer(1, 4)),
        "vae": bare(KL, scaling_factor=draw.uniform(0.3, 0.9), shift_factor=0.0),
    }
    assert_differ(candidate, one, other, "the differences of two pipelines")


@todo("1.2")
@pytest.mark.parametrize(("left", "right"), [(DDIM, EULER), (EULER, MULTISTEP)])
def test_another_class_and_the_fields_that_both_have(
    candidate: Any, draw: Draw, left: str, right: str
) -> None:
    """Of two classes the shared fields are compared, each with its own class's default."""
    written = {"prediction_type": "epsilon", **draw_betas(draw)}  # the default of both
    one = {"scheduler": bare(left, **written), "vae": live.kl(2, 4)}
    other = {"scheduler": bare(right, **draw_betas(draw)), "vae": live.kl(2, 4)}
    assert_differ(candidate, one, other, f"the differences of {left} and {right}")
    mine, theirs = draw_config(draw, left, "in memory"), draw_config(draw, right, "saved")
    assert_differ(
        candidate,
        {"scheduler": mine},
        {"scheduler": theirs},
        f"the differences of {left} in memory and {right} saved",
    )


@todo("1.2")
def test_a_component_that_one_side_lacks(candidate: Any, draw: Draw) -> None:
    """A component that only one side has gives its class and None, and no fields."""
    unet, betas = draw_unet(draw), draw_betas(draw)
    one = {"unet": unet, "scheduler": bare(EULER, **betas)}
    other = {"vae": live.kl(2, draw.integer(3, 6)), "scheduler": bare(EULER, **betas)}
    assert_differ(candidate, one, other, "the differences of two pipelines")


# 1.3


def draw_halved(draw: Draw, entries: int) -> tuple[bool, ...]:
    """Where time is halved: somewhere, and not everywhere, and twice at most."""
    true = draw.sample(range(entries), draw.integer(1, min(2, entries - 1)))
    return tuple(i in true for i in range(entries))


def draw_kl(draw: Draw) -> Config:
    return live.kl(draw.choice([2, 3, 5]), draw.integer(5, 9))


def draw_dc(draw: Draw) -> Config:
    return live.dc(draw.integer(3, 5), draw.integer(5, 9))


def draw_wan(draw: Draw) -> Config:
    return live.wan(4, draw_halved(draw, 3), draw.integer(5, 9))


def draw_folded_wan(draw: Draw) -> Config:
    return live.wan(4, draw_halved(draw, 3), draw.integer(5, 9), patch=2)


def draw_small_wan(draw: Draw) -> Config:
    """It declares that space is compressed by 8, as all of its class do that say nothing."""
    return live.wan(3, draw_halved(draw, 2), draw.integer(5, 9))


def draw_qwen(draw: Draw) -> Config:
    levels = draw.integer(3, 4)
    return live.qwen(levels, draw_halved(draw, levels - 1), draw.integer(5, 9))


def draw_ltx(draw: Draw) -> Config:
    scaling, patch = draw.choice([((True, True, False), 2), ((True, False, False), 4)])
    return live.ltx(scaling, patch, draw.integer(5, 9), mirrored=False)


def draw_cogvideox(draw: Draw) -> Config:
    levels, temporal = draw.choice([(3, 2), (4, 2), (3, 4), (4, 4)])
    return live.cogvideox(levels, temporal, draw.integer(5, 9))


VAES: dict[str, Callable[[Draw], Config]] = {
    "AutoencoderKL": draw_kl,
    "AutoencoderDC": draw_dc,
    "AutoencoderKLWan": draw_wan,
    "a Wan that folds pixels": draw_folded_wan,
    "a Wan of three levels": draw_small_wan,
    "AutoencoderKLQwenImage": draw_qwen,
    "AutoencoderKLLTXVideo": draw_ltx,
    "AutoencoderKLCogVideoX": draw_cogvideox,
}


@todo("1.3", again=False)
@pytest.mark.parametrize("kind", VAES)
def test_the_geometry_is_what_an_encoder_does(candidate: Any, draw: Draw, kind: str) -> None:
    """Space, time and channels are those of what the encoder of this config makes."""
    config = VAES[kind](draw)
    answer = candidate.vae_geometry(config)
    assert_equals(answer, library=lambda: live.encoded(config), what=f"the geometry of {kind}")


@todo("1.3")
def test_a_vae_without_a_rule_is_an_error(candidate: Any, draw: Draw) -> None:
    """A class that has no rule here raises ValueError, whatever its fields are called."""
    config = live.kl(3, 4) | {"dim_mult": [1, 1], "z_dim": 4, "temperal_downsample": [True]}
    for name in draw.sample(["AutoencoderTiny", "VQModel", "AutoencoderKLMochi"], 2):
        assert_raises(
            lambda name=name: candidate.vae_geometry(config | {"_class_name": name}),  # type: ignore[misc]
            "ValueError",
            what=f"the geometry of {name}",
        )


# 1.4


def denoiser(name: str, **fields: Any) -> Config:
    return live.DENOISERS[name](**fields)


def draw_sd3(draw: Draw) -> tuple[Config, Config]:
    c = draw.integer(3, 6)
    return live.kl(draw.integer(2, 3), c), denoiser(
        "SD3Transformer2DModel", in_channels=c, patch_size=2
    )


def draw_flux(draw: Draw) -> tuple[Config, Config]:
    c = draw.integer(3, 6)
    return live.kl(draw.integer(2, 3), c), denoiser("FluxTransformer2DModel", in_channels=4 * c)


def draw_qwen_image(draw: Draw) -> tuple[Config, Config]:
    c = draw.integer(3, 6)
    vae = live.qwen(4, (False, True, True), c)
    return vae, denoiser("QwenImageTransformer2DModel", in_channels=4 * c, out_channels=c)


def draw_wan_video(draw: Draw) -> tuple[Config, Config]:
    c, patch = draw.integer(3, 6), draw.choice([(1, 2, 2), (1, 1, 2), (1, 2, 1)])
    vae = live.wan(4, (False, True, True), c)
    return vae, denoiser("WanTransformer3DModel", in_channels=c, out_channels=c, patch_size=patch)


def draw_ltx_video(draw: Draw) -> tuple[Config, Config]:
    c = draw.integer(5, 9)
    vae = live.ltx(draw.choice([(True, True, False), (True, False)]), 4, c)
    return vae, denoiser("LTXVideoTransformer3DModel", in_channels=c, out_channels=c)


RUNS: dict[str, Callable[[Draw], tuple[Config, Config]]] = {
    "SD3Transformer2DModel": draw_sd3,
    "FluxTransformer2DModel": draw_flux,
    "QwenImageTransformer2DModel": draw_qwen_image,
    "WanTransformer3DModel": draw_wan_video,
    "LTXVideoTransformer3DModel": draw_ltx_video,
}
VIDEO = ("WanTransformer3DModel", "LTXVideoTransformer3DModel")
UNIT = 32  # pixels: twice what any of these VAEs compresses


def draw_sizes(draw: Draw, name: str) -> tuple[int, int, int]:
    """Height, width and frames that divide; 32 is what LTX pipelines demand."""
    rows, columns = draw.sample(range(1, 5), 2)
    return UNIT * rows, UNIT * columns, 4 * draw.integer(2, 4) + 1 if name in VIDEO else 1


@todo("1.4", again=False)
@pytest.mark.parametrize("name", RUNS)
def test_the_sequence_is_as_long_as_in_a_run(candidate: Any, draw: Draw, name: str) -> None:
    """As many tokens as hidden_states has when they enter the first block of a live pipeline."""
    vae, network = RUNS[name](draw)
    height, width, frames = draw_sizes(draw, name)
    answer = candidate.sequence_length(vae, network, height, width, frames)
    assert_equals(
        answer,
        library=lambda: live.tokens(vae, network, height, width, frames),
        what=f"the tokens of {name} at {height} × {width}, {frames} frame(s)",
    )


@todo("1.4", guards="the patch in time, and one of three by three")
def test_patches_of_other_sides(candidate: Any, draw: Draw) -> None:
    """A patch may hold several latent frames, and a pipeline may pack by more than two.

    This Wan compresses by 4, whatever it declares.
    """
    c, rows, columns = draw.integer(3, 6), draw.integer(1, 3), draw.integer(4, 6)
    wan = denoiser("WanTransformer3DModel", in_channels=c, out_channels=c, patch_size=(2, 1, 2))
    latent_frames = 2 * draw.integer(2, 4)
    answer = candidate.sequence_length(
        live.wan(3, (True, True), c), wan, 4 * rows, 8 * columns, 4 * latent_frames - 3
    )
    assert_equals(answer, value=latent_frames // 2 * rows * columns, what="patches of 2 × 1 × 2")
    flux = denoiser("FluxTransformer2DModel", in_channels=9 * c)
    answer = candidate.sequence_length(live.kl(3, c), flux, 12 * rows, 12 * columns, 1)
    assert_equals(answer, value=rows * columns, what="latents that are packed by 3 × 3")


@todo("1.4")
@pytest.mark.parametrize("kind", ["pixels", "patches", "frames", "latent frames", "channels"])
def test_what_does_not_divide_is_an_error(candidate: Any, draw: Draw, kind: str) -> None:
    """Pixels, patches, frames and channels that do not come out even raise ValueError."""
    c, odd = draw.integer(3, 6), 2 * draw.integer(1, 4) + 1
    vae, image = live.wan(4, (False, True, True), c), live.kl(3, c)
    wan = denoiser("WanTransformer3DModel", in_channels=c, out_channels=c)
    flux = denoiser("FluxTransformer2DModel", in_channels=4 * c)
    calls: list[tuple[Any, ...]] = {
        "pixels": [(vae, wan, 32 + odd, 64, 5), (image, flux, 32, 64 + odd, 1)],
        "patches": [(vae, wan, 8 * odd, 64, 5), (image, flux, 32, 4 * odd, 1)],
        "frames": [(vae, wan, 32, 64, 4 * odd), (vae, wan, 32, 64, 4 * odd + 3)],
        "latent frames": [(vae, wan | {"patch_size": [2, 2, 2]}, 32, 64, 4 * (odd - 1) + 1)],
        "channels": [
            (image, flux | {"in_channels": 4 * c + 1}, 32, 64, 1),
            (image, flux | {"in_channels": 2 * c}, 32, 64, 1),
            (vae, wan | {"in_channels": c - 1}, 32, 64, 5),
        ],
    }[kind]
    for call in calls:
        assert_raises(
            lambda call=call: candidate.sequence_length(*call),  # type: ignore[misc]
            "ValueError",
            what=f"{kind} that do not divide",
        )


# 1.5


def draw_widths(draw: Draw, *ranges: tuple[int, int]) -> list[int]:
    """Different widths, all of 8 and none the sum of two others."""
    widths: list[int] = []
    for low, high in ranges:
        free = [
            width
            for width in range(low, high, 8)
            if width not in widths
            and all(width != a + b and a != width + b for a in widths for b in widths)
        ]
        widths.append(draw.choice(free))
    return widths


Wired = tuple[Side, dict[str, int]]


def draw_sd(draw: Draw) -> Wired:
    c, (hidden, projection) = draw.integer(3, 6), draw_widths(draw, (16, 64), (16, 64))
    return (
        {"vae": live.kl(2, c), "text_encoder": live.clip(hidden, projection)},
        {"in_channels": c, "cross_attention_dim": hidden},
    )


def draw_xl(draw: Draw) -> Wired:
    c, embedded = draw.integer(3, 6), 2 * draw.integer(2, 5)
    h1, h2, p1, p2 = draw_widths(draw, (16, 40), (16, 64), (16, 80), (16, 120))
    return (
        {
            "vae": live.kl(2, c),
            "text_encoder": live.clip(h1, p1),
            "text_encoder_2": live.clip(h2, p2),
        },
        {
            "in_channels": c,
            "cross_attention_dim": h1 + h2,
            "projection_class_embeddings_input_dim": 6 * embedded + p2,
            "addition_time_embed_dim": embedded,
        },
    )


def draw_stable_diffusion_3(draw: Draw) -> Wired:
    c = draw.integer(3, 6)
    h1, h2, p1, p2 = draw_widths(draw, (16, 40), (16, 64), (16, 80), (16, 120))
    width = h1 + h2 + 8 * draw.integer(1, 4)
    return (
        {
            "vae": live.kl(2, c),
            "text_encoder": live.clip(h1, p1),
            "text_encoder_2": live.clip(h2, p2),
            "text_encoder_3": live.t5(width),
        },
        {"in_channels": c, "joint_attention_dim": width, "pooled_projection_dim": p1 + p2},
    )


def draw_flux_wired(draw: Draw) -> Wired:
    c, (h, p, d) = draw.integer(3, 6), draw_widths(draw, (16, 40), (16, 64), (16, 80))
    return (
        {"vae": live.kl(2, c), "text_encoder": live.clip(h, p), "text_encoder_2": live.t5(d)},
        {"in_channels": 4 * c, "joint_attention_dim": d, "pooled_projection_dim": h},
    )


def draw_wan_wired(draw: Draw) -> Wired:
    c, width = draw.integer(3, 6), 8 * draw.integer(2, 6)
    return (
        {"vae": live.wan(4, (False, True, True), c), "text_encoder": live.t5(width)},
        {"in_channels": c, "text_dim": width, "out_channels": c},
    )


def draw_wan_from_image(draw: Draw) -> Wired:
    """Its VAE halves time once, and says so: a mask of four channels is wrong here."""
    parts, needs = draw_wan_wired(draw)
    c = needs["in_channels"]
    vae = live.wan(4, (False, False, True), c, scale_factor_temporal=2)
    return {**parts, "vae": vae}, needs | {"in_channels": 2 * c + 2}


WIRED: dict[str, tuple[str, Callable[[Draw], Wired]]] = {
    "StableDiffusionPipeline": (UNET, draw_sd),
    "StableDiffusionXLPipeline": (UNET, draw_xl),
    "StableDiffusion3Pipeline": ("SD3Transformer2DModel", draw_stable_diffusion_3),
    "FluxPipeline": ("FluxTransformer2DModel", draw_flux_wired),
    "WanPipeline": ("WanTransformer3DModel", draw_wan_wired),
    "WanImageToVideoPipeline": ("WanTransformer3DModel", draw_wan_from_image),
}


def put_together(kind: str, parts: Side, needs: Mapping[str, int], **changed: int) -> Side:
    """The configs of a pipeline whose denoiser has what it needs, but for what was changed."""
    name, _ = WIRED[kind]
    fields: dict[str, Any] = {**needs, **changed}
    if name == UNET:
        fields["out_channels"] = needs["in_channels"]
    if kind == "StableDiffusionXLPipeline":
        fields["addition_embed_type"] = "text_time"
    slot = "unet" if name == UNET else "transformer"
    return {**parts, slot: denoiser(name, **fields)}


def faults(kind: str, fitting: Side, configs: Side) -> dict[str, tuple[int, int]]:
    """Where these configs differ from those that fit, if a live pipeline fails with them."""
    failure = live.why_not(kind, configs)
    if not failure:
        return {}
    if configs == fitting:
        raise AssertionError(f"{kind} does not run although everything fits: {failure}")
    slot = "unet" if "unet" in fitting else "transformer"
    return {
        f"{slot}.{field}": (configs[slot][field], fitting[slot][field])
        for field in fitting[slot]
        if configs[slot][field] != fitting[slot][field]
    }


@todo("1.5", again=False)
@pytest.mark.parametrize("kind", WIRED)
def test_a_pipeline_runs_when_and_only_when_nothing_is_reported(
    candidate: Any, draw: Draw, kind: str
) -> None:
    """A live pipeline fails with what is reported, and runs once the field has what it needs."""
    parts, needs = WIRED[kind][1](draw)
    field = draw.choice(sorted(set(needs) - {"addition_time_embed_dim"}))
    by = draw.choice([-1, 1, 2]) if field.endswith("channels") else draw.choice([-8, 8])
    fitting = put_together(kind, parts, needs)
    broken = put_together(kind, parts, needs, **{field: needs[field] + by})
    for configs, what in ((broken, f"a wrong {field}"), (fitting, "parts that fit")):
        answer = candidate.wiring_errors(kind, configs)
        assert_equals(
            answer,
            library=lambda configs=configs: faults(kind, fitting, configs),  # type: ignore[misc]
            what=f"the faults of {kind} with {what}",
        )


@todo("1.5", guards="faults in several fields at a time")
@pytest.mark.parametrize("kind", WIRED)
def test_every_fault_is_reported(candidate: Any, draw: Draw, kind: str) -> None:
    """With every field wrong, each is reported with what it has and what it needs."""
    parts, needs = WIRED[kind][1](draw)
    fields = sorted(set(needs) - {"addition_time_embed_dim"})
    wrong = {field: needs[field] + draw.integer(1, 12) for field in fields}
    small = draw.choice(fields)
    wrong[small] = needs[small] - draw.integer(1, 2)
    broken = put_together(kind, parts, needs, **wrong)
    answer = candidate.wiring_errors(kind, broken)
    slot = "unet" if "unet" in broken else "transformer"
    assert_equals(
        answer,
        value={f"{slot}.{field}": (wrong[field], needs[field]) for field in fields},
        what=f"the faults of {kind}",
    )


@todo("1.5")
def test_a_pipeline_without_a_rule_is_an_error(candidate: Any, draw: Draw) -> None:
    """Another pipeline raises ValueError, even when its parts are like those of a known one."""
    parts, needs = draw_sd(draw)
    configs = put_together("StableDiffusionPipeline", parts, needs)
    for name in draw.sample(
        [
            "StableDiffusionUpscalePipeline",
            "PixArtAlphaPipeline",
            "WanVACEPipeline",
            "KolorsPipeline",
        ],
        2,
    ):
        assert_raises(
            lambda name=name: candidate.wiring_errors(name, configs),  # type: ignore[misc]
            "ValueError",
            what=f"the faults of {name}",
        )


# 1.6

DTYPES = ("float16", "bfloat16", "float64")
WEIGHTS = ("unet", "vae", "text_encoder")


def draw_dtype(draw: Draw, kind: str) -> Any:
    """A dtype for all, or for some by name, with a default or without."""
    one, two, three = draw.sample(DTYPES, 3)
    named, other = draw.sample(WEIGHTS, 2)
    return {
        "one for all": one,
        "named, with a default": {named: one, "default": two},
        "two named, without a default": {named: one, other: three},
        "only a default": {"default": two},
    }[kind]


PLANS = ["one for all", "named, with a default", "two named, without a default", "only a default"]


@todo("1.6", again=False)
@pytest.mark.parametrize("dtype", PLANS)
def test_the_plan_is_what_from_pretrained_loads(candidate: Any, draw: Draw, dtype: str) -> None:
    """Each part's dtype, and the file whose numbers it has, are those of the loaded pipeline."""
    wanted, variant = draw_dtype(draw, dtype), draw.choice(["fp16", "bf16", "ema"])
    having = draw.sample(WEIGHTS, 3 if dtype == "only a default" else draw.integer(1, 2))
    folder = live.Folder(variant, tuple(sorted(having)))
    answer = candidate.runtime_plan(folder.index(), folder.files(), wanted, variant)
    assert_equals(
        answer,
        library=lambda: folder.loaded(wanted, variant),
        what=f"the plan with {variant} for {' and '.join(having)}",
    )


@todo("1.6", guards="variants that nobody asked for, and folders that are no component's")
def test_without_a_variant_the_plain_files_are_taken(candidate: Any, draw: Draw) -> None:
    """variant None takes the plain files, of components alone: no settings, no names with _."""
    folder = live.Folder("fp16", (draw.choice(WEIGHTS),))
    wanted = draw_dtype(draw, draw.choice(PLANS))
    index = folder.index() | {"_before": ["diffusers", UNET], "layers": ["diffusers", "a", "b"]}
    files = folder.files()
    files |= {"_before": files["unet"], "layers": files["unet"]}
    answer = candidate.runtime_plan(index, files, wanted, None)
    assert_equals(answer, library=lambda: folder.loaded(wanted, None), what="the plan")


@todo("1.6")
def test_a_variant_that_no_component_has_is_an_error(candidate: Any, draw: Draw) -> None:
    """A variant that lies in no folder, or only under another library's name, raises ValueError."""
    folder = live.Folder("fp16", WEIGHTS)
    files = folder.files() | {"scheduler": ["scheduler_config.json", "model.bf16.safetensors"]}
    files["unet"] = [*files["unet"], "model.bf16.safetensors", "diffusion_pytorch_model.bf16.json"]
    for variant in ("bf16", draw.choice(["non_ema", "int8"])):
        assert_raises(
            lambda variant=variant: candidate.runtime_plan(  # type: ignore[misc]
                folder.index(), files, "float16", variant
            ),
            "ValueError",
            what=f"the variant {variant}, which no component has,",
        )
