"""Lab 06: the learner's pipeline, part by part and as a whole, against StableDiffusionPipeline."""

from __future__ import annotations

import copy
import functools
import inspect
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from infralens.examiner import (
    Draw,
    as_pixels,
    assert_agrees,
    assert_equals,
    assert_matches,
    assert_raises,
    assert_tensor,
    given,
    keep,
    quiet_transformers,
    todo,
    unpack,
)
from infralens.suites.diffusers.lab_06_diffusers_pipeline_components import tiny
from infralens.suites.pipelines import pipeline_of

BESIDE = Path(__file__).with_name("given.py").read_text(encoding="utf-8")
HALF = {"float16": torch.float16, "bfloat16": torch.bfloat16}
DTYPES = {"float32": torch.float32, **HALF}
SPACINGS = ("leading", "linspace", "trailing")


def seed_of(draw: Draw) -> int:
    """A seed, another one each time."""
    return int(draw.uniform(1, 10) * 1e6)


def generator_at(seed: int) -> torch.Generator:
    """A generator that has been used before: its seed alone does not say what it draws next."""
    generator = torch.Generator().manual_seed(seed)
    torch.rand(seed % 7 + 1, generator=generator)
    return generator


# 6.1

POSSIBLE = {
    "vae": ("diffusers", "AutoencoderKL"),
    "unet": ("diffusers", "UNet2DConditionModel"),
    "transformer": ("diffusers", "FluxTransformer2DModel"),
    "controlnet": ("diffusers", "ControlNetModel"),
    "scheduler": ("diffusers", "FlowMatchEulerDiscreteScheduler"),
    "text_encoder": ("transformers", "CLIPTextModel"),
    "text_encoder_2": ("transformers", "T5EncoderModel"),
    "tokenizer": ("transformers", "CLIPTokenizer"),
    "tokenizer_2": ("transformers", "T5TokenizerFast"),
    "safety_checker": ("stable_diffusion", "StableDiffusionSafetyChecker"),
    "feature_extractor": ("transformers", "CLIPImageProcessor"),
    "image_encoder": ("transformers", "CLIPVisionModelWithProjection"),
}


def draw_index(draw: Draw, **more: Any) -> dict[str, Any]:
    """A model_index.json with six of the possible components and `more` among them."""
    chosen = [list(POSSIBLE)[i] for i in draw.tensor(len(POSSIBLE)).argsort()[:6].tolist()]
    entries = {name: list(POSSIBLE[name]) for name in chosen} | more
    order = draw.tensor(len(entries)).argsort().tolist()
    version = {"_class_name": "StableDiffusionPipeline", "_diffusers_version": "0.42.1"}
    return version | {name: entries[name] for name in (list(entries)[i] for i in order)}


def files_of(index: dict[str, Any]) -> tiny.Files:
    return {"model_index.json": json.dumps(index, indent=2).encode()}


def index_of_the_library(files: tiny.Files) -> dict[str, Any]:
    """What DiffusionPipeline.load_config reads, kept where it is a pair of a public name."""
    from diffusers import DiffusionPipeline

    with tiny.written(files) as folder:
        config = DiffusionPipeline.load_config(folder)
    pairs = {
        name: tuple(value)
        for name, value in config.items()
        if not name.startswith("_") and isinstance(value, list) and len(value) == 2
    }
    return {name: None if pair == (None, None) else pair for name, pair in pairs.items()}


def assert_index(candidate: Any, index: dict[str, Any], what: str) -> None:
    """read_index gives what DiffusionPipeline reads."""
    files = files_of(index)
    answer = candidate.read_index(given(candidate, BESIDE).folder(files))
    assert_equals(answer, library=lambda: index_of_the_library(files), what=what)


@todo("6.1", guards="a plain index, before what is special in the others")
def test_each_component_has_a_library_and_a_class(candidate: Any, draw: Draw) -> None:
    """read_index gives (library, class) for each component that DiffusionPipeline finds."""
    assert_index(candidate, draw_index(draw), "the components")


@todo("6.1")
def test_a_component_that_was_left_out_is_none(candidate: Any, draw: Draw) -> None:
    """[null, null] in the file is None."""
    empty = {f"{name}_3": [None, None] for name in draw.sample(["text_encoder", "tokenizer"], 2)}
    assert_index(candidate, draw_index(draw, **empty), "the components, two of them left out")


@todo("6.1")
def test_what_is_no_pair_is_a_setting(candidate: Any, draw: Draw) -> None:
    """Settings and names that begin with _ are passed over."""
    settings: dict[str, Any] = {
        "requires_safety_checker": False,
        "boundary_ratio": 0.875,
        "text_encoder_out_layers": [9, 18, 27],
        "variant": "v2",
        "_ignore_files": ["unet/old.bin", "vae/old.bin"],
    }
    assert_index(candidate, draw_index(draw, **settings), "the components, beside settings")


# 6.2

LIGHT = ("tokenizer",)  # and a scheduler: enough where weights play no part
TEXT = ("tokenizer", "text_encoder")
NETWORKS = ("text_encoder", "unet", "vae")


def draw_folder(
    draw: Draw, names: Sequence[str] = tiny.ALL, scheduler: str = "DDIMScheduler"
) -> tiny.Files:
    """The files of a saved model with these components, new weights, and this scheduler."""
    fields = {
        "timestep_spacing": draw.choice(SPACINGS),
        "prediction_type": draw.choice(["epsilon", "v_prediction"]),
    }
    saved = tiny.scheduler(scheduler, **tiny.drawn_table(draw, **fields))
    return tiny.drawn_files(draw, saved, names)


def loaded(candidate: Any, files: tiny.Files, dtype: str, device: str) -> Any:
    """The components that the learner's code loads from a folder with these files."""
    return candidate.load_components(given(candidate, BESIDE).folder(files), dtype, device)


def told(candidate: Any, answer: Any, name: str, text: str = "") -> dict[str, Any]:
    """What the learner's component is, in values; a NoneType, when it is not there."""
    part = answer.get(name) if isinstance(answer, dict) else None
    known: dict[str, Any] = given(candidate, BESIDE).described(part, text)
    return known


@functools.cache
def ours() -> Any:
    """The same functions on this side, for the reference."""
    quiet_transformers()
    from infralens.suites.diffusers.lab_06_diffusers_pipeline_components import given

    return given


class Reference:
    """The components that StableDiffusionPipeline.from_pretrained loads, when they are wanted."""

    def __init__(self, files: tiny.Files, device: str, dtype: str = "float32") -> None:
        self.files, self.device, self.dtype = files, device, DTYPES[dtype]

    @functools.cached_property
    def pipe(self) -> Any:
        return tiny.pipeline(self.files, self.device, self.dtype)

    def told(self, name: str, text: str = "") -> dict[str, Any]:
        known: dict[str, Any] = ours().described(self.pipe.components[name], text)
        return known

    def names(self) -> Any:
        """The components that its index lists."""
        listed = json.loads(self.files["model_index.json"])
        return names_of({k: v for k, v in self.pipe.components.items() if k in listed})


def names_of(components: Any) -> Any:
    """Which names there are, and whether each has a component or None."""
    if not isinstance(components, dict):
        return components
    return {name: "None" if part is None else "loaded" for name, part in components.items()}


@todo("6.2")
def test_every_name_of_the_index_is_there(candidate: Any, draw: Draw, device: str) -> None:
    """load_components has every name, also those whose component is None."""
    files = draw_folder(draw, LIGHT)
    answer = loaded(candidate, files, "float32", device)
    assert_equals(
        names_of(answer),
        library=Reference(files, device).names,
        what="the names of the components, and which of them are None",
    )


def told_shortly(part: dict[str, Any]) -> dict[str, Any]:
    """Of a component its class, its dtypes, and whether it is in training mode."""
    return {name: part.get(name) for name in ("class", "dtypes", "training")}


@todo("6.2", again=False)
@pytest.mark.parametrize("dtype", HALF)
def test_networks_are_in_the_dtype_and_in_eval_mode(
    candidate: Any, draw: Draw, device: str, dtype: str
) -> None:
    """Text encoder, UNet and VAE are of their class, in the dtype asked for, and not training."""
    files = draw_folder(draw)
    answer = loaded(candidate, files, dtype, device)
    reference = Reference(files, device, dtype)
    mine, theirs = (
        {name: told(candidate, answer, name) for name in NETWORKS},
        functools.cache(reference.told),
    )
    assert_equals(
        {name: told_shortly(mine[name]) for name in NETWORKS},
        library=lambda: {name: told_shortly(theirs(name)) for name in NETWORKS},
        what=f"the networks, asked for in {dtype}",
    )
    for name in NETWORKS:
        assert_same_weights(mine[name], functools.partial(theirs, name), name)


def assert_same_weights(
    mine: dict[str, Any], reference: Callable[[], dict[str, Any]], what: str
) -> None:
    """The weights of a network are the library's, each of them under its name."""
    state: Any = mine.get("state")
    names = list(state) if isinstance(state, dict) else state
    assert_equals(
        names, library=lambda: list(reference()["state"]), what=f"the names of {what}'s weights"
    )

    def wanted(name: str) -> Tensor:
        weight: Tensor = reference()["state"][name]
        return weight

    for name in names:
        assert_equals(state[name], library=functools.partial(wanted, name), what=f"{what}'s {name}")


@todo("6.2", guards="configurations, and weights in float32, where nothing is rounded off")
def test_networks_have_the_weights_of_the_folder(candidate: Any, draw: Draw, device: str) -> None:
    """Configurations and weights are those that StableDiffusionPipeline.from_pretrained loads."""
    files = draw_folder(draw)
    answer = loaded(candidate, files, "float32", device)
    told_by_the_library = functools.cache(Reference(files, device).told)
    for name in NETWORKS:
        mine = told(candidate, answer, name)
        reference = functools.partial(told_by_the_library, name)
        assert_same_weights(mine, reference, name)
        assert_same_config(mine, reference, FIELDS[name], name)


def assert_same_config(
    mine: dict[str, Any], reference: Callable[[], Any], fields: Sequence[str], what: str
) -> None:
    """The fields of a configuration, one by one, so that the first one that differs is named."""

    def wanted(field: str) -> Any:
        return reference()["config"][field]

    for field in fields:
        assert_equals(
            mine.get("config", {}).get(field),
            library=functools.partial(wanted, field),
            what=f"{what}.config.{field}",
        )


FIELDS = {
    "vae": ("block_out_channels", "latent_channels", "norm_num_groups", "scaling_factor"),
    "unet": ("block_out_channels", "cross_attention_dim", "attention_head_dim", "in_channels"),
    "text_encoder": ("hidden_size", "num_attention_heads", "max_position_embeddings"),
}


@todo("6.2")
@pytest.mark.parametrize("name", ["EulerDiscreteScheduler", "HeunDiscreteScheduler"])
def test_the_scheduler_is_the_saved_one(candidate: Any, draw: Draw, device: str, name: str) -> None:
    """The scheduler is of the class in the index and has its saved configuration."""
    files = draw_folder(draw, LIGHT, name)
    mine = told(candidate, loaded(candidate, files, "float32", device), "scheduler")
    reference = Reference(files, device)
    assert_equals(
        mine["class"],
        library=lambda: reference.told("scheduler")["class"],
        what="the class of the scheduler",
    )
    told_by_the_library = functools.cache(lambda: reference.told("scheduler"))
    assert_same_config(mine, told_by_the_library, own_fields(name), "scheduler")


@todo("6.2")
def test_the_tokenizer_knows_the_vocabulary(candidate: Any, draw: Draw, device: str) -> None:
    """The tokenizer makes the ids that the saved one makes, and knows how long a prompt may be."""
    files, text = draw_folder(draw, LIGHT), draw_prompt(draw, draw.integer(3, 9))
    answer = loaded(candidate, files, "float32", device)
    mine, reference = told(candidate, answer, "tokenizer", text), Reference(files, device)

    def wanted(field: str) -> Any:
        return reference.told("tokenizer", text)[field]

    for field, what in (
        ("class", "the class of the tokenizer"),
        ("ids", f"the ids of {text!r}"),
        ("length", "tokenizer.model_max_length"),
    ):
        assert_equals(
            mine.get(field),
            library=functools.partial(wanted, field),
            what=what,
        )


# 6.3


def draw_prompt(draw: Draw, tokens: int) -> str:
    """A text of so many tokens; a word of the longer ones takes several."""
    words = []
    if tokens > 6:
        words.append(draw.choice(tiny.SPELLED))
        tokens -= len(tiny.tokenizer().tokenize(words[0]))
    return " ".join([*words, *(draw.choice(tiny.WORDS) for _ in range(tokens))])


ROOM = tiny.MAX_TOKENS - 2  # for text, between the beginning and the end


def draw_prompts(draw: Draw, length: str) -> list[str]:
    """Prompts that fit, or of which some do not."""
    short = draw.sample(range(1, 7), 2)
    if length == "short":
        return [draw_prompt(draw, tokens) for tokens in short]
    lengths = [short[0], ROOM, ROOM + 1, ROOM + draw.integer(3, 8)]
    return [draw_prompt(draw, tokens) for tokens in draw.sample(lengths, 4)]


def encoded(
    candidate: Any, files: tiny.Files, prompts: list[str], images: int, device: str, dtype: str
) -> tuple[Any, ...]:
    """The learner's embeddings of the prompts, and what was cut off them."""
    parts = given(candidate, BESIDE).networks(files, list(TEXT), device, DTYPES[dtype])
    answer = candidate.encode_prompt(*(parts[name] for name in TEXT), prompts, images)
    return unpack(answer, "embeds", "removed")


def text_pipeline(files: tiny.Files, device: str, dtype: torch.dtype) -> Any:
    """A StableDiffusionPipeline of which only the part that reads is there."""
    parts = ours().networks(files, list(TEXT), device, dtype)
    return pipeline_of("StableDiffusionPipeline", **parts)


def encoded_exactly(pipe: Any, prompts: list[str], images: int) -> Tensor:
    """CLIPTextModel in float64, on the ids padded to their full length."""
    ids = pipe.tokenizer(prompts, padding="max_length", truncation=True, return_tensors="pt")
    encoder = copy.deepcopy(pipe.text_encoder).double()
    exact: Tensor = encoder(ids["input_ids"].to(encoder.device))[0]
    return exact.repeat_interleave(images, dim=0)


def assert_encoded(candidate: Any, draw: Draw, device: str, prompts: list[str], dtype: str) -> None:
    """The embeddings are StableDiffusionPipeline.encode_prompt's."""
    files, images = draw_folder(draw, TEXT), draw.integer(2, 3)
    embeds, _ = encoded(candidate, files, prompts, images, device, dtype)
    pipe = functools.cache(lambda: text_pipeline(files, device, DTYPES[dtype]))
    assert_matches(
        embeds,
        library=lambda: pipe().encode_prompt(prompts, device, images, False)[0],
        truth=lambda: encoded_exactly(pipe(), prompts, images),
        what=f"the embeddings of {len(prompts)} prompts, {images} images each",
    )


@todo("6.3", guards="the numbers in float32, of prompts that are too long as well")
@pytest.mark.parametrize("length", ["short", "long"])
def test_the_embeddings_are_those_of_the_pipeline(
    candidate: Any, draw: Draw, device: str, length: str
) -> None:
    """Prompts are padded or cut to the full length, and each stands once for every image."""
    assert_encoded(candidate, draw, device, draw_prompts(draw, length), "float32")


@todo("6.3", again=False)
@pytest.mark.parametrize("dtype", HALF)
def test_the_embeddings_keep_the_dtype_of_the_encoder(
    candidate: Any, draw: Draw, device: str, dtype: str
) -> None:
    """An encoder in half precision gives embeddings in half precision."""
    assert_encoded(candidate, draw, device, draw_prompts(draw, "short"), dtype)


def cut_off(prompt: str) -> str:
    """What CLIPTokenizer cannot fit in, as StableDiffusionPipeline tells it of one prompt."""
    tokenizer = tiny.tokenizer()
    text: str = tokenizer.decode(
        tokenizer(prompt)["input_ids"][tokenizer.model_max_length - 1 : -1]
    )
    return text


@todo("6.3")
def test_what_was_cut_off_is_told(candidate: Any, draw: Draw, device: str) -> None:
    """removed holds, for each prompt, the text that did not fit; "" when all did."""
    files, prompts = draw_folder(draw, TEXT), draw_prompts(draw, "long")
    _, removed = encoded(candidate, files, prompts, 2, device, "float32")
    assert_equals(
        removed,
        library=lambda: [cut_off(prompt) for prompt in prompts],
        what=f"what was cut off {prompts}",
    )


# 6.4


def prepared(
    shape: tuple[int, ...], scheduler: Any, generator: Any, dtype: torch.dtype, device: str
) -> Any:
    """StableDiffusionPipeline.prepare_latents, in latents' own sizes."""
    quiet_transformers()
    from diffusers import StableDiffusionPipeline

    self = SimpleNamespace(vae_scale_factor=1, scheduler=scheduler)
    return StableDiffusionPipeline.prepare_latents(self, *shape, dtype, device, generator)


def largest_noise(scheduler: Any) -> Tensor:
    """Euler's init_noise_sigma in float64: σ_max, or √(σ_max² + 1) with leading timesteps."""
    sigma: Tensor = scheduler.sigmas.double().max()
    leading = scheduler.config.timestep_spacing == "leading"
    return (sigma**2 + 1).sqrt() if leading else sigma


def noise_of(seeds: list[int], shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    """What the generators draw next: all at once from one, an image at a time from several."""
    if len(seeds) == 1:
        return torch.randn(shape, generator=generator_at(seeds[0]), dtype=dtype)
    each = (1, *shape[1:])
    return torch.cat(
        [torch.randn(each, generator=generator_at(seed), dtype=dtype) for seed in seeds]
    )


def generators(seeds: list[int]) -> Any:
    made = [generator_at(seed) for seed in seeds]
    return made[0] if len(made) == 1 else made


def assert_prepared(
    candidate: Any, draw: Draw, device: str, spacing: str, many: bool, dtype: torch.dtype
) -> None:
    """The latents are those of StableDiffusionPipeline.prepare_latents with Euler."""
    batch = draw.integer(2, 4)
    shape = (batch, draw.choice([4, 6]), draw.choice([5, 6]), 8)
    seeds = [seed_of(draw) + i for i in range(batch if many else 1)]
    scheduler = tiny.scheduler(
        "EulerDiscreteScheduler", **tiny.drawn_table(draw, timestep_spacing=spacing)
    )
    steps = draw.integer(4, 20)
    lent = given(candidate, BESIDE).scheduler(tiny.saved_config(scheduler), steps)
    answer = candidate.prepare_latents(shape, lent, generators(seeds), dtype, device)
    scheduler.set_timesteps(num_inference_steps=steps)
    assert_matches(
        answer,
        library=lambda: prepared(shape, scheduler, generators(seeds), dtype, device),
        truth=lambda: noise_of(seeds, shape, dtype).double() * largest_noise(scheduler),
        what="the first latents",
    )


@todo("6.4")
@pytest.mark.parametrize("spacing", SPACINGS)
def test_the_first_latents_are_scaled_noise(
    candidate: Any, draw: Draw, device: str, spacing: str
) -> None:
    """The generator's next noise times the scheduler's init_noise_sigma."""
    assert_prepared(candidate, draw, device, spacing, False, torch.float32)


@todo("6.4", guards="the numbers in float32; the next check looks at half precision alone")
def test_a_list_of_generators_draws_an_image_each(candidate: Any, draw: Draw, device: str) -> None:
    """With a list, image i is drawn by generator i alone."""
    assert_prepared(candidate, draw, device, "linspace", True, torch.float32)


@todo("6.4")
@pytest.mark.parametrize("dtype", HALF)
@pytest.mark.parametrize("many", [False, True], ids=["one generator", "a list"])
def test_latents_in_half_precision_stay_so(
    candidate: Any, draw: Draw, device: str, many: bool, dtype: str
) -> None:
    """The latents come in the dtype that was asked for."""
    assert_prepared(candidate, draw, device, "trailing", many, HALF[dtype])


@todo("6.4")
@pytest.mark.parametrize("count", ["too few", "too many"])
def test_as_many_generators_as_images(candidate: Any, draw: Draw, device: str, count: str) -> None:
    """A list of another length than the batch is a ValueError."""
    batch = draw.integer(3, 5)
    made = [
        generator_at(seed_of(draw) + i) for i in range(batch + (1 if count == "too many" else -1))
    ]
    config = tiny.saved_config(tiny.scheduler("EulerDiscreteScheduler"))
    lent = given(candidate, BESIDE).scheduler(config, 5)
    assert_raises(
        lambda: candidate.prepare_latents((batch, 4, 5, 8), lent, made, torch.float32, device),
        "ValueError",
        what=f"{len(made)} generators for {batch} images",
    )


# 6.5

LOOPS = (
    "EulerDiscreteScheduler",
    "EulerAncestralDiscreteScheduler",
    "HeunDiscreteScheduler",
    "PNDMScheduler",
)
MOST_IN_DOUBT = 0.01  # of the pixels may lie on the edge of rounding, and be one level off
ONE_LEVEL = 1.25 / 255  # of the brightest pixel


def pictures(pipe: Any, **call: Any) -> Tensor:
    """The images of a StableDiffusionPipeline: uint8 NHWC."""
    return torch.from_numpy(np.stack([np.asarray(image) for image in pipe(**call).images]))


def settled(answer: Tensor, images: Tensor) -> Tensor:
    """The library's images; where the answer differs from them by rounding alone, the answer."""
    gap = (answer.int() - images.int()).abs()
    near = int(gap.max()) <= 1 and float((gap > 0).double().mean()) < MOST_IN_DOUBT
    return answer if near else images


def not_off(answer: Tensor, images: Tensor) -> Tensor:
    """Two shares of the pixels: those that are not darker than they should be, not brighter."""
    levels, wanted = answer.int(), images.int()
    return torch.stack([(levels >= wanted).float().mean(), (levels <= wanted).float().mean()])


def assert_same_pictures(answer: Any, pictures: Callable[[], Tensor]) -> None:
    """Every pixel is within one level of the library's, and fewer than 1 % are one level off."""
    wanted = functools.cache(pictures)
    assert_tensor(answer, dtype=torch.uint8, what="the images")
    assert_equals(
        tuple(answer.shape), library=lambda: tuple(wanted().shape), what="the shape of the images"
    )
    assert_agrees(
        answer.float(),
        library=lambda: settled(answer, wanted()).float(),
        what="the pixels of two prompts, two images each",
        share=ONE_LEVEL,
    )
    assert_agrees(
        not_off(answer, wanted()),
        library=lambda: not_off(settled(answer, wanted()), wanted()),
        what="the shares of pixels that are not darker, and not brighter, than they should be",
        share=MOST_IN_DOUBT / 2,
    )


def assert_pictures(
    candidate: Any,
    draw: Draw,
    device: str,
    name: str,
    scale: float,
    many: bool = False,
    spacing: str = "trailing",
    length: str = "short",
) -> None:
    """The images are those of StableDiffusionPipeline, with components of its own."""
    # With leading, init_noise_sigma is just what scale_model_input divides by in the first turn;
    # with linspace, the last step is so small that a mistake in it hardly shows.
    fields = tiny.drawn_table(draw, timestep_spacing=spacing)
    files = tiny.drawn_files(draw, tiny.scheduler(name, **fields))
    prompts, negatives = (draw_prompts(draw, "short") for _ in range(2))
    if length == "long":  # one of two, so that it is two images each as everywhere
        prompts[draw.integer(0, 1)] = draw_prompt(draw, ROOM + draw.integer(2, 6))
    height, width = draw.sample([16, 24], 2)
    steps, seeds = draw.integer(2, 3), [seed_of(draw) + i for i in range(4 if many else 1)]
    lent = given(candidate, BESIDE).components(files, device)
    answer = as_pixels(
        candidate.generate(
            lent, prompts, negatives, steps, scale, generators(seeds), 2, height, width
        )
    )

    assert_same_pictures(
        answer,
        lambda: pictures(
            pipeline_of("StableDiffusionPipeline", **ours().components(files, device)),
            prompt=prompts,
            negative_prompt=negatives,
            num_inference_steps=steps,
            guidance_scale=scale,
            generator=generators(seeds),
            num_images_per_prompt=2,
            height=height,
            width=width,
        ),
    )


@todo("6.5", guards="schedulers that draw in every step, or have more timesteps than steps")
@pytest.mark.parametrize("name", LOOPS)
def test_the_images_are_those_of_the_pipeline(
    candidate: Any, draw: Draw, device: str, name: str
) -> None:
    """generate gives StableDiffusionPipeline's images, with schedulers of different kinds."""
    assert_pictures(candidate, draw, device, name, draw.uniform(2, 5))


@todo("6.5", again=False)
def test_a_list_of_generators_reaches_every_step(candidate: Any, draw: Draw, device: str) -> None:
    """One generator an image draws its first latents and the noise of each of its steps."""
    name = "EulerAncestralDiscreteScheduler"
    assert_pictures(candidate, draw, device, name, draw.uniform(2, 5), many=True)


@todo("6.5", again=False)
def test_the_first_latents_are_as_large_as_this_run_wants_them(
    candidate: Any, draw: Draw, device: str
) -> None:
    """init_noise_sigma is read after set_timesteps: the spacing "leading" begins with less."""
    name, scale = "EulerDiscreteScheduler", draw.uniform(2, 5)
    assert_pictures(candidate, draw, device, name, scale, spacing="leading")


@todo("6.5", guards="a prompt that does not fit, in the run as a whole", again=False)
def test_a_prompt_that_is_too_long_is_cut(candidate: Any, draw: Draw, device: str) -> None:
    """Of a long prompt as much is read as StableDiffusionPipeline reads."""
    name, scale = "PNDMScheduler", draw.uniform(2, 5)
    assert_pictures(candidate, draw, device, name, scale, length="long")


@todo("6.5", again=False)
def test_without_guidance_the_prompt_stands_alone(candidate: Any, draw: Draw, device: str) -> None:
    """At scales of 1 and less StableDiffusionPipeline does not guide."""
    assert_pictures(candidate, draw, device, "EulerDiscreteScheduler", draw.uniform(0.2, 0.7))


# 6.6

SWAPS = (
    "DDIMScheduler",
    "EulerDiscreteScheduler",
    "HeunDiscreteScheduler",
    "DPMSolverMultistepScheduler",
)


def draw_saved_scheduler(draw: Draw) -> Any:
    """A scheduler of another kind than those of SWAPS, with values that are nobody's defaults."""
    fields = {
        "timestep_spacing": "trailing",
        "prediction_type": "v_prediction",
        "num_train_timesteps": draw.choice([100, 200, 250]),
    }
    return tiny.scheduler("PNDMScheduler", **tiny.drawn_table(draw, **fields))


def swapped(saved: Any, name: str) -> Any:
    """X.from_config of the configuration as it was saved."""
    import diffusers

    return getattr(diffusers, name).from_config(tiny.saved_config(saved))


@functools.cache
def own_fields(name: str) -> list[str]:
    """The fields of a scheduler's configuration: what its constructor takes."""
    import diffusers

    return list(inspect.signature(getattr(diffusers, name).__init__).parameters)[1:]


@todo("6.6")
@pytest.mark.parametrize("name", SWAPS)
def test_the_new_scheduler_has_the_old_ones_configuration(
    candidate: Any, draw: Draw, name: str
) -> None:
    """Class, configuration and timesteps are those of X.from_config(scheduler.config)."""
    saved, steps = draw_saved_scheduler(draw), draw.choice([4, 5, 10])
    beside = given(candidate, BESIDE)
    lent = {"unet": None, "scheduler": beside.scheduler(tiny.saved_config(saved))}
    answer = candidate.swap_scheduler(lent, name)
    mine = beside.described(answer)
    assert_equals(
        mine["class"], library=lambda: type(swapped(saved, name)).__name__, what="the class"
    )
    reference = functools.cache(lambda: ours().described(swapped(saved, name)))
    assert_same_config(mine, reference, own_fields(name), "the new scheduler")
    answer.set_timesteps(steps)
    assert_equals(
        answer.timesteps,
        library=lambda: timesteps(swapped(saved, name), steps),
        what=f"its timesteps for {steps} steps",
    )


def timesteps(scheduler: Any, steps: int) -> Tensor:
    scheduler.set_timesteps(num_inference_steps=steps)
    found: Tensor = scheduler.timesteps
    return found


@todo("6.6")
@pytest.mark.parametrize("name", ["DDIMScheduler", "PNDMScheduler"])
def test_the_new_scheduler_has_no_past(candidate: Any, draw: Draw, name: str) -> None:
    """It is at the beginning of its life, though the old one was in the middle of a run."""
    saved, steps = draw_saved_scheduler(draw), draw.integer(4, 9)
    beside = given(candidate, BESIDE)
    lent = {"unet": None, "scheduler": beside.scheduler(tiny.saved_config(saved), steps)}
    mine = beside.described(candidate.swap_scheduler(lent, name))
    assert_equals(
        mine.get("steps"),
        library=lambda: swapped(saved, name).num_inference_steps,
        what="num_inference_steps of the new scheduler",
    )
    assert_equals(
        mine.get("timesteps"),
        library=lambda: swapped(saved, name).timesteps,
        what="the timesteps of the new scheduler",
    )


@todo("6.6")
@pytest.mark.parametrize("name", ["HeunDiscreteScheduler", "PNDMScheduler"])
def test_the_old_scheduler_goes_on_as_it_was(candidate: Any, draw: Draw, name: str) -> None:
    """The components hold the old scheduler, and running the new one does not change it."""
    saved, steps = draw_saved_scheduler(draw), draw.integer(4, 9)
    config, beside = tiny.saved_config(saved), given(candidate, BESIDE)
    lent = keep(candidate, {"unet": None, "scheduler": beside.scheduler(config, steps)})
    candidate.swap_scheduler(lent, name).set_timesteps(steps + 3)
    left = beside.described(beside.part(lent, "scheduler"))
    old = functools.cache(lambda: ours().described(ours().scheduler(config, steps)))

    def wanted(field: str) -> Any:
        return old()[field]

    for field, what in (
        ("class", 'the class of components["scheduler"]'),
        ("steps", "num_inference_steps of the old scheduler"),
        ("timesteps", "the timesteps of the old scheduler"),
    ):
        assert_equals(
            left.get(field),
            library=functools.partial(wanted, field),
            what=what,
        )
    assert_same_config(left, old, own_fields("PNDMScheduler"), "the old scheduler")


# 6.7

CUT_SHORT = (
    "DDIMScheduler",
    "EulerDiscreteScheduler",
    "HeunDiscreteScheduler",
    "PNDMScheduler",
    "DPMSolverMultistepScheduler",
)


def draw_start(draw: Draw) -> tuple[int, float]:
    """A number of steps and a strength at which rounding down and to the nearest differ."""
    steps = draw.integer(5, 12)
    # Never about half of them: what is kept could then be what is skipped.
    kept = draw.choice([k for k in range(2, steps - 1) if 2 * k not in (steps - 1, steps)])
    return steps, float(f"{(kept + draw.uniform(0.6, 0.9)) / steps:.4g}")


def draw_scheduler(draw: Draw, name: str) -> Any:
    """A scheduler whose training run has another length each time."""
    return tiny.scheduler(
        name,
        num_train_timesteps=int(draw.uniform(500, 1500)),
        timestep_spacing=draw.choice(["leading", "linspace"]),
    )


def started(scheduler: Any, steps: int, strength: float) -> Any:
    """StableDiffusionImg2ImgPipeline.get_timesteps, on a scheduler with its timesteps set."""
    quiet_transformers()
    from diffusers import StableDiffusionImg2ImgPipeline

    scheduler.set_timesteps(num_inference_steps=steps)
    self = SimpleNamespace(scheduler=scheduler)
    return StableDiffusionImg2ImgPipeline.get_timesteps(self, steps, strength, "cpu")


@todo("6.7")
@pytest.mark.parametrize("name", CUT_SHORT)
@pytest.mark.parametrize("amount", ["some", "all"])
def test_the_first_steps_are_left_out(candidate: Any, draw: Draw, amount: str, name: str) -> None:
    """The timesteps and their number are StableDiffusionImg2ImgPipeline.get_timesteps'."""
    steps, strength = draw_start(draw)
    strength = 1.0 if amount == "all" else strength
    scheduler = draw_scheduler(draw, name)
    lent = given(candidate, BESIDE).scheduler(tiny.saved_config(scheduler))
    answer = candidate.img2img_timesteps(lent, steps, strength)
    mine, count = unpack(answer, "timesteps", "steps")
    reference = functools.cache(lambda: started(scheduler, steps, strength))
    what = f"{steps} steps of {name} at strength {strength}"
    assert_equals(
        mine, library=lambda: reference()[0], what=f"the timesteps that are left of {what}"
    )
    assert_equals(count, library=lambda: reference()[1], what=f"how many steps are left of {what}")


@todo("6.7")
@pytest.mark.parametrize(
    "name", ["EulerDiscreteScheduler", "HeunDiscreteScheduler", "DPMSolverMultistepScheduler"]
)
def test_the_scheduler_knows_where_it_begins(candidate: Any, draw: Draw, name: str) -> None:
    """set_timesteps and set_begin_index have been called as get_timesteps calls them."""
    steps, strength = draw_start(draw)
    scheduler, beside = draw_scheduler(draw, name), given(candidate, BESIDE)
    lent = beside.scheduler(tiny.saved_config(scheduler))
    candidate.img2img_timesteps(lent, steps, strength)
    mine = beside.described(lent)
    started_scheduler = functools.cache(lambda: (started(scheduler, steps, strength), scheduler)[1])
    assert_equals(
        mine["timesteps"],
        library=lambda: started_scheduler().timesteps,
        what="the scheduler's own timesteps",
    )
    assert_equals(
        mine["begin"],
        library=lambda: started_scheduler().begin_index,
        what=f"begin_index of {name}, {steps} steps at strength {strength}",
    )


@todo("6.7")
@pytest.mark.parametrize("name", ["DDIMScheduler", "HeunDiscreteScheduler"])
def test_nothing_left_is_refused(candidate: Any, draw: Draw, name: str) -> None:
    """A strength that leaves no step is a ValueError (the library returns no timesteps)."""
    steps = draw.integer(5, 12)
    strength = float(f"{draw.uniform(0.55, 0.9) / steps:.4g}")
    lent = given(candidate, BESIDE).scheduler(tiny.saved_config(draw_scheduler(draw, name)))
    assert_raises(
        lambda: candidate.img2img_timesteps(lent, steps, strength),
        "ValueError",
        what=f"{steps} steps at strength {strength}",
    )
