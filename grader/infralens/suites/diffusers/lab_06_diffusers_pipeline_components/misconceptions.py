"""Lab 06: what goes wrong on the way from a folder to a picture, as code that does it."""

from __future__ import annotations

import importlib
import inspect
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor

from infralens.examiner import misconception

PIPELINE, TEXT = "handbook/pipeline.md", "handbook/conditioning.md"
INDEX, LOADING, LATENTS = f"{PIPELINE}#the-index", f"{PIPELINE}#loading", f"{PIPELINE}#latents"
CALL, SWAP, START = f"{PIPELINE}#the-call", f"{PIPELINE}#swapping", f"{PIPELINE}#image-to-image"
TOKENS, ROWS, CUT = f"{TEXT}#tokens", f"{TEXT}#rows", f"{TEXT}#what-does-not-fit"
STATES = f"{TEXT}#which-states"
Wrong = TypeVar("Wrong", bound=Callable[..., Any])
Parts = dict[str, Any]
Index = dict[str, Any]


# 6.1


def entries(folder: str) -> Index:
    data: Index = json.loads(Path(f"{folder}/model_index.json").read_bytes())
    return data


def is_pair(value: Any) -> bool:
    return type(value) is list and len(value) == 2


def pairs(folder: str) -> Index:
    """The compact twin."""
    found = {n: v for n, v in entries(folder).items() if n[0] != "_" and is_pair(v)}
    return {name: None if pair == [None, None] else tuple(pair) for name, pair in found.items()}


@misconception("6.1", "class-before-library", replaces="read_index", reads=INDEX)
def class_first(folder: str) -> Index:
    """The class came before the library. The file and the answer have the library first."""
    return {name: pair and pair[::-1] for name, pair in pairs(folder).items()}


@misconception("6.1", "class-without-library", replaces="read_index", reads=INDEX)
def class_alone(folder: str) -> Index:
    """Only the class was kept. Its name does not say where it is defined: keep the library too."""
    return {name: pair and pair[1] for name, pair in pairs(folder).items()}


@misconception("6.1", "library-diffusers-alone", replaces="read_index", reads=INDEX)
def diffusers_alone(folder: str) -> Index:
    """Only components from diffusers were kept. Tokenizers and text encoders come from
    transformers, and a pipeline may have classes of its own."""
    return {name: p for name, p in pairs(folder).items() if p is None or p[0] == "diffusers"}


@misconception("6.1", "left-out-components-dropped", replaces="read_index", reads=INDEX)
def nulls_dropped(folder: str) -> Index:
    """A component of [null, null] was dropped. It is one that was left out on purpose: the name
    stays, its value is None."""
    return {name: pair for name, pair in pairs(folder).items() if pair}


@misconception("6.1", "pair-of-nulls-kept", replaces="read_index", reads=INDEX)
def nulls_kept(folder: str) -> Index:
    """[null, null] came back as a pair of two None. There is nothing to import: None stands for the
    whole component."""
    return {name: pair or (None, None) for name, pair in pairs(folder).items()}


@misconception("6.1", "underscored-names-kept", replaces="read_index", reads=INDEX)
def underscored(folder: str) -> Index:
    """A name that begins with _ was taken for a component. Such names are about the file itself,
    even when a list of two stands behind them."""
    more = {name: tuple(v) for name, v in entries(folder).items() if name[0] == "_" and is_pair(v)}
    return pairs(folder) | more


@misconception("6.1", "every-list-a-component", replaces="read_index", reads=INDEX)
def every_list(folder: str) -> Index:
    """A list of another length than two was taken for a component. It is a setting."""
    found = {n: v for n, v in entries(folder).items() if n[0] != "_" and isinstance(v, list)}
    return {name: None if v == [None, None] else tuple(v) for name, v in found.items()}


@misconception("6.1", "text-of-two-letters-a-pair", replaces="read_index", reads=INDEX)
def two_letters(folder: str) -> Index:
    """A text was taken for a pair because its length is two. Ask for a list as well."""
    short = {name: tuple(v) for name, v in entries(folder).items() if isinstance(v, str)}
    return pairs(folder) | {name: v for name, v in short.items() if len(v) == 2}


# 6.2


def part_of(folder: str, name: str, pair: Any, dtype: torch.dtype, device: str) -> Any:
    """The compact twin, for one component."""
    if pair is None:
        return None
    part = getattr(importlib.import_module(pair[0]), pair[1]).from_pretrained(f"{folder}/{name}")
    return part.eval().to(device, dtype) if isinstance(part, torch.nn.Module) else part


def parts_of(folder: str, dtype: str, device: str) -> Parts:
    kind = getattr(torch, dtype)
    return {name: part_of(folder, name, p, kind, device) for name, p in pairs(folder).items()}


@misconception("6.2", "names-of-nothing-dropped", replaces="load_components", reads=LOADING)
def none_dropped(folder: str, dtype: str, device: str) -> Parts:
    """Components that were left out are missing. A pipeline asks for each by name: give it None."""
    return {name: part for name, part in parts_of(folder, dtype, device).items() if part}


@misconception("6.2", "dtype-not-applied", replaces="load_components", reads=LOADING)
def dtype_ignored(folder: str, dtype: str, device: str) -> Parts:
    """The networks are as they were saved, not in the dtype that was asked for."""
    return parts_of(folder, "float32", device)


@misconception("6.2", "text-encoder-in-another-dtype", replaces="load_components", reads=LOADING)
def encoder_left(folder: str, dtype: str, device: str) -> Parts:
    """The text encoder was not cast with the others. Half precision in one network and float32 in
    the next ends in an error about Half and Float, or in silent conversions."""
    parts = parts_of(folder, dtype, device)
    parts["text_encoder"] = parts_of(folder, "float32", device)["text_encoder"]
    return parts


@misconception("6.2", "vae-left-in-float32", replaces="load_components", reads=LOADING)
def vae_left(folder: str, dtype: str, device: str) -> Parts:
    """The VAE was left in float32. Some pipelines do so before they decode; loading gives every
    network the dtype that was asked for."""
    parts = parts_of(folder, dtype, device)
    return parts | {"vae": parts["vae"].float()}


@misconception("6.2", "left-in-training-mode", replaces="load_components", reads=LOADING)
def training(folder: str, dtype: str, device: str) -> Parts:
    """The networks are in training mode, where dropout and its like are active. Call eval()."""
    parts = parts_of(folder, dtype, device)
    return {n: p.train() if isinstance(p, torch.nn.Module) else p for n, p in parts.items()}


@misconception("6.2", "weights-through-half", replaces="load_components", reads=LOADING)
def through_half(folder: str, dtype: str, device: str) -> Parts:
    """The weights went through half precision on their way to another dtype: what was rounded off
    does not come back."""
    parts = parts_of(folder, "float16", device)
    networks = {n: p for n, p in parts.items() if isinstance(p, torch.nn.Module)}
    return parts | {n: p.to(getattr(torch, dtype)) for n, p in networks.items()}


@misconception("6.2", "scheduler-of-defaults", replaces="load_components", reads=LOADING)
def default_scheduler(folder: str, dtype: str, device: str) -> Parts:
    """The scheduler was made without its saved configuration: other betas, another prediction type
    than the network was trained with."""
    parts = parts_of(folder, dtype, device)
    return parts | {"scheduler": type(parts["scheduler"])()}


@misconception("6.2", "scheduler-always-pndm", replaces="load_components", reads=LOADING)
def always_pndm(folder: str, dtype: str, device: str) -> Parts:
    """The scheduler is PNDM whatever the index says. The class is the second text of its pair."""
    pndm = part_of(folder, "scheduler", ("diffusers", "PNDMScheduler"), torch.float32, device)
    return parts_of(folder, dtype, device) | {"scheduler": pndm}


@misconception("6.2", "vocabulary-of-two", replaces="load_components", reads=TOKENS)
def bare_tokenizer(folder: str, dtype: str, device: str) -> Parts:
    """The tokenizer was made without its vocabulary: it knows its special tokens and nothing else,
    so that all prompts of one length are alike. Load it with from_pretrained."""
    parts = parts_of(folder, dtype, device)
    length = parts["tokenizer"].model_max_length
    return parts | {"tokenizer": type(parts["tokenizer"])(model_max_length=length)}


@misconception("6.2", "length-not-read", replaces="load_components", reads=TOKENS)
def length_not_read(folder: str, dtype: str, device: str) -> Parts:
    """The tokenizer's model_max_length is CLIP's usual 77, not the one that was saved."""
    parts = parts_of(folder, dtype, device)
    parts["tokenizer"].model_max_length = 77
    return parts


# 6.3


def ids_of(tokenizer: Any, texts: list[str]) -> Any:
    """All ids at full length."""
    return tokenizer(texts, padding="max_length", truncation=True, return_tensors="pt")


def too_long(tokenizer: Any, text: str, first: int = -1, last: int | None = -1) -> str:
    ids = tokenizer(text)["input_ids"]
    words: str = tokenizer.decode(ids[tokenizer.model_max_length + first : last])
    return words


def told(tokenizer: Any, texts: list[str], first: int = -1, last: int | None = -1) -> list[str]:
    return [too_long(tokenizer, text, first, last) for text in texts]


def rows(hidden: Tensor, n: int) -> Tensor:
    p, length, width = hidden.shape
    return hidden[:, None].expand(p, n, length, width).reshape(p * n, length, width)


Encoded = tuple[Tensor, list[str]]


@misconception("6.3", "padded-to-the-longest", replaces="encode_prompt", reads=TOKENS)
def to_the_longest(tokenizer: Any, encoder: Any, texts: list[str], n: int) -> Encoded:
    """The prompts were padded to the longest of them. The network was trained with all of
    model_max_length places filled, and the negative prompts must have as many."""
    ids = tokenizer(texts, padding="longest", truncation=True, return_tensors="pt")
    return rows(encoder(ids["input_ids"].to(encoder.device))[0], n), told(tokenizer, texts)


@misconception("6.3", "attention-mask-passed", replaces="encode_prompt", reads=TOKENS)
def mask_passed(tokenizer: Any, encoder: Any, texts: list[str], n: int) -> Encoded:
    """The attention mask was passed on. Stable Diffusion's text encoder was used without one in
    training: the padding has vectors of its own, and a mask changes them."""
    ids = ids_of(tokenizer, texts).to(encoder.device)
    return rows(encoder(**ids)[0], n), told(tokenizer, texts)


@misconception("6.3", "rows-in-turns", replaces="encode_prompt", reads=ROWS)
def in_turns(tokenizer: Any, encoder: Any, texts: list[str], n: int) -> Encoded:
    """The rows are [a, b, a, b]. Each prompt's images stand together: [a, a, b, b]."""
    hidden = encoder(ids_of(tokenizer, texts)["input_ids"].to(encoder.device))[0]
    return hidden.repeat(n, 1, 1), told(tokenizer, texts)


@misconception("6.3", "one-row-for-a-prompt", replaces="encode_prompt", reads=ROWS)
def not_repeated(tokenizer: Any, encoder: Any, texts: list[str], n: int) -> Encoded:
    """There is one row for each prompt. Each image needs one: P·n of them."""
    hidden = encoder(ids_of(tokenizer, texts)["input_ids"].to(encoder.device))[0]
    return hidden, told(tokenizer, texts)


@misconception("6.3", "pooled-embedding", replaces="encode_prompt", reads=STATES)
def pooled(tokenizer: Any, encoder: Any, texts: list[str], n: int) -> Encoded:
    """The pooled output was taken, one vector for a prompt. Cross-attention looks at a vector for
    every token: the last hidden state."""
    output = encoder(ids_of(tokenizer, texts)["input_ids"].to(encoder.device))
    return output[1].repeat_interleave(n, dim=0), told(tokenizer, texts)


@misconception("6.3", "before-the-last-norm", replaces="encode_prompt", reads=STATES)
def before_the_norm(tokenizer: Any, encoder: Any, texts: list[str], n: int) -> Encoded:
    """The last of hidden_states was taken. It comes before the final layer norm; the first output
    of the encoder, last_hidden_state, comes after it."""
    ids = ids_of(tokenizer, texts)["input_ids"].to(encoder.device)
    output = encoder(ids, output_hidden_states=True)
    return rows(output.hidden_states[-1], n), told(tokenizer, texts)


@misconception("6.3", "last-layer-but-one", replaces="encode_prompt", reads=STATES)
def last_but_one(tokenizer: Any, encoder: Any, texts: list[str], n: int) -> Encoded:
    """The hidden state of the last layer but one was taken, as SDXL does. Stable Diffusion 1 takes
    the last one, after the final layer norm."""
    ids = ids_of(tokenizer, texts)["input_ids"].to(encoder.device)
    output = encoder(ids, output_hidden_states=True)
    return rows(output.hidden_states[-2], n), told(tokenizer, texts)


@misconception("6.3", "embeddings-in-float32", replaces="encode_prompt", reads=f"{TEXT}#rows")
def in_float32(tokenizer: Any, encoder: Any, texts: list[str], n: int) -> Encoded:
    """The embeddings came in float32 although the encoder works in half precision. The next network
    is in the same dtype as this one."""
    hidden = encoder(ids_of(tokenizer, texts)["input_ids"].to(encoder.device))[0]
    return rows(hidden, n).float(), told(tokenizer, texts)


@misconception("6.3", "seventy-seven", replaces="encode_prompt", reads=TOKENS)
def seventy_seven(tokenizer: Any, encoder: Any, texts: list[str], n: int) -> Encoded:
    """The length was taken to be 77. That is CLIP's; this tokenizer says model_max_length."""
    ids = tokenizer(
        texts, padding="max_length", max_length=77, truncation=True, return_tensors="pt"
    )
    return rows(encoder(ids["input_ids"].to(encoder.device))[0], n), told(tokenizer, texts)


@misconception("6.3", "nothing-said-to-be-cut", replaces="encode_prompt", reads=CUT)
def silent(tokenizer: Any, encoder: Any, texts: list[str], n: int) -> Encoded:
    """Prompts were cut and nothing was said about it. That is the silent truncation that this todo
    is about: tokenize without cutting, and compare."""
    hidden = encoder(ids_of(tokenizer, texts)["input_ids"].to(encoder.device))[0]
    return rows(hidden, n), [""] * len(texts)


@misconception("6.3", "end-token-told", replaces="encode_prompt", reads=CUT)
def end_told(tokenizer: Any, encoder: Any, texts: list[str], n: int) -> Encoded:
    """The end token was counted as text that did not fit. It is no part of the prompt: stop before
    the last id."""
    hidden = encoder(ids_of(tokenizer, texts)["input_ids"].to(encoder.device))[0]
    return rows(hidden, n), told(tokenizer, texts, last=None)


@misconception("6.3", "one-token-kept-too-many", replaces="encode_prompt", reads=CUT)
def one_too_many(tokenizer: Any, encoder: Any, texts: list[str], n: int) -> Encoded:
    """The first token that was cut is missing from removed. The end token takes the last of the L
    places, so text fits up to L − 1."""
    hidden = encoder(ids_of(tokenizer, texts)["input_ids"].to(encoder.device))[0]
    return rows(hidden, n), told(tokenizer, texts, first=0)


@misconception("6.3", "words-counted-for-tokens", replaces="encode_prompt", reads=CUT)
def in_words(tokenizer: Any, encoder: Any, texts: list[str], n: int) -> Encoded:
    """Words were counted, not tokens. A rare word takes several tokens, and all of them count."""
    hidden = encoder(ids_of(tokenizer, texts)["input_ids"].to(encoder.device))[0]
    room = tokenizer.model_max_length - 2
    return rows(hidden, n), [" ".join(text.split()[room:]) for text in texts]


@misconception("6.3", "padding-told", replaces="encode_prompt", reads=CUT)
def padding_told(tokenizer: Any, encoder: Any, texts: list[str], n: int) -> Encoded:
    """The prompts were tokenized together, so the shorter ones have padding where others have text,
    and it was told as removed. (The library's log does so.) Take each prompt alone."""
    hidden = encoder(ids_of(tokenizer, texts)["input_ids"].to(encoder.device))[0]
    together = tokenizer(texts, padding="longest")["input_ids"]
    length = tokenizer.model_max_length
    return rows(hidden, n), [tokenizer.decode(ids[length - 1 : -1]) for ids in together]


# 6.4


def normal(shape: Any, generator: Any, dtype: torch.dtype, device: Any) -> Tensor:
    """The compact twin of the noise: from one generator, or from one for each image."""
    if not isinstance(generator, list):
        return torch.randn(shape, generator=generator, dtype=dtype).to(device)
    if shape[0] != len(generator):
        raise ValueError("a generator for each image, no more and no fewer")
    return torch.cat([normal((1, *shape[1:]), one, dtype, device) for one in generator])


def sized(noise: Tensor, scheduler: Any) -> Tensor:
    """The noise at the size of the first timestep."""
    return noise.mul(scheduler.init_noise_sigma)


def is_list(generator: Any) -> bool:
    return isinstance(generator, list)


@misconception("6.4", "noise-not-scaled", replaces="prepare_latents", reads=LATENTS)
def unit_noise(shape: Any, scheduler: Any, generator: Any, dtype: Any, device: Any) -> Tensor:
    """The noise has size 1. Multiply it by scheduler.init_noise_sigma: the first timestep of Euler
    stands for noise many times as large."""
    return normal(shape, generator, dtype, device)


@misconception("6.4", "noise-divided", replaces="prepare_latents", reads=LATENTS)
def divided(shape: Any, scheduler: Any, generator: Any, dtype: Any, device: Any) -> Tensor:
    """The noise was divided by init_noise_sigma. It is made larger, not smaller."""
    return normal(shape, generator, dtype, device).div(scheduler.init_noise_sigma)


@misconception("6.4", "scaled-by-the-largest-sigma", replaces="prepare_latents", reads=LATENTS)
def largest_sigma(shape: Any, scheduler: Any, generator: Any, dtype: Any, device: Any) -> Tensor:
    """The noise was multiplied by the first sigma. With leading timesteps init_noise_sigma is
    √(σ² + 1), a little more: read the scheduler's own number."""
    return normal(shape, generator, dtype, device) * float(scheduler.sigmas[0])


@misconception("6.4", "generator-seeded-anew", replaces="prepare_latents", reads=LATENTS)
def seeded_anew(shape: Any, scheduler: Any, generator: Any, dtype: Any, device: Any) -> Tensor:
    """The generator was started again from its seed. It may have been used before: draw from where
    it is."""
    for one in generator if is_list(generator) else [generator]:
        one.manual_seed(one.initial_seed())
    return sized(normal(shape, generator, dtype, device), scheduler)


@misconception("6.4", "one-generator-for-all", replaces="prepare_latents", reads=LATENTS)
def one_for_all(shape: Any, scheduler: Any, generator: Any, dtype: Any, device: Any) -> Tensor:
    """The first generator of the list drew the whole batch. Each image is drawn by its own, so that
    it comes out the same in any batch."""
    if is_list(generator) and len(generator) == shape[0]:
        generator = generator[0]
    return sized(normal(shape, generator, dtype, device), scheduler)


@misconception("6.4", "whole-batch-from-each", replaces="prepare_latents", reads=LATENTS)
def batch_from_each(shape: Any, scheduler: Any, generator: Any, dtype: Any, device: Any) -> Tensor:
    """Every generator drew a whole batch. One image each is enough: shape (1, C, h, w)."""
    if is_list(generator) and len(generator) == shape[0]:
        whole = [normal(shape, one, dtype, device) for one in generator]
        return sized(torch.cat(whole), scheduler)
    return sized(normal(shape, generator, dtype, device), scheduler)


@misconception("6.4", "latents-in-float32", replaces="prepare_latents", reads=LATENTS)
def float32_noise(shape: Any, scheduler: Any, generator: Any, dtype: Any, device: Any) -> Tensor:
    """The latents came in float32. They are drawn in the dtype of the network that will see
    them."""
    return sized(normal(shape, generator, torch.float32, device), scheduler)


@misconception("6.4", "generators-not-counted", replaces="prepare_latents", reads=LATENTS)
def not_counted(shape: Any, scheduler: Any, generator: Any, dtype: Any, device: Any) -> Tensor:
    """A list of the wrong length was accepted, and the batch has another size than was asked for.
    Say no: ValueError."""
    if is_list(generator):
        generator = generator[: shape[0]]
        shape = (len(generator), *shape[1:])
    return sized(normal(shape, generator, dtype, device), scheduler)


# 6.5


def read(parts: Parts, texts: list[str], n: int) -> Tensor:
    ids = ids_of(parts["tokenizer"], texts)["input_ids"]
    encoder = parts["text_encoder"]
    return rows(encoder(ids.to(encoder.device))[0], n)


def takes_generator(scheduler: Any) -> bool:
    return "generator" in str(inspect.signature(scheduler.step))


def shrinks_by(parts: Parts) -> int:
    return int(1 << len(parts["vae"].config.block_out_channels) - 1)


def bytes_of(image: Tensor) -> Tensor:
    return image.mul(0.5).add(0.5).clamp(0, 1).mul(255).round().byte().movedim(1, 3)


def guide(negative: Tensor, positive: Tensor, w: float) -> Tensor:
    return negative.lerp(positive, w)


def unscaled(parts: Parts, x: Tensor) -> Tensor:
    return x.div(parts["vae"].config.scaling_factor)


PARTS: dict[str, Callable[..., Any]] = {
    "read": read,
    "noise": lambda shape, s, g, like: sized(normal(shape, g, like.dtype, like.device), s),
    "for_steps": lambda generator: generator,
    "factor": shrinks_by,
    "seen": lambda scheduler, x, t: scheduler.scale_model_input(x, t),
    "guide": guide,
    "guides": lambda w: w > 1,
    "times": lambda scheduler, steps: scheduler.timesteps,
    "takes": takes_generator,
    "asked": lambda t, i: t,
    "stepped": lambda x, seen: x,
    "unscaled": unscaled,
    "decode": lambda vae, z: vae.decode(z).sample,
    "pixels": bytes_of,
}


def run(given: tuple[Any, ...], **other: Callable[..., Any]) -> Any:
    """The compact twin of the whole; `other` exchanges some of its parts."""
    use = {**PARTS, **other}
    parts, prompt, negative, steps, w, generator, n, height, width = given
    scheduler, net, f = parts["scheduler"], parts["unet"], use["factor"](parts)
    c, u = (use["read"](parts, texts, n) for texts in (prompt, negative))
    parts["scheduler"].set_timesteps(steps)
    shape = (len(c), net.config.in_channels, height // f, width // f)
    x = use["noise"](shape, scheduler, generator, c)
    noise = {"generator": use["for_steps"](generator)} if use["takes"](scheduler) else {}
    both = use["guides"](w)
    texts = torch.cat([u, c]) if both else c
    for i, t in enumerate(use["times"](scheduler, steps)):
        seen = use["seen"](scheduler, x, t)
        output = net(seen.repeat(2, 1, 1, 1) if both else seen, use["asked"](t, i), texts)[0]
        output = use["guide"](*output.chunk(2), w) if both else output
        x = scheduler.step(output, t, use["stepped"](x, seen), **noise)[0]
    return use["pixels"](use["decode"](parts["vae"], use["unscaled"](parts, x)))


def generation(name: str, reads: str = CALL) -> Callable[[Wrong], Wrong]:
    return misconception("6.5", name, replaces="generate", reads=reads)


@generation("pixels-cut-off", "handbook/vae.md#pixels-and-the-models-range")
def cut_off(*given: Any) -> Any:
    """The fractions of the pixels were cut off, so that half of them are one too dark. Round before
    the cast to uint8."""
    return run(given, pixels=lambda x: ((x + 1) / 2).clamp(0, 1).mul(255).byte().movedim(1, 3))


@generation("generator-always-passed")
def always_passed(*given: Any) -> Any:
    """step was given a generator that it does not take. Heun and PNDM draw nothing in step and have
    no parameter for it: ask inspect.signature first."""
    return run(given, takes=lambda scheduler: True)


@generation("step-noise-from-the-start")
def noise_from_the_start(*given: Any) -> Any:
    """The noise of the steps came from a generator that was started again, so that it repeats the
    first latents. Hand on the same generator: it goes on where it is."""

    def again(generator: Any) -> Any:
        if is_list(generator):
            return [again(one) for one in generator]
        return torch.Generator().manual_seed(generator.initial_seed())

    return run(given, for_steps=again)


@generation("step-noise-from-the-first-generator")
def noise_from_the_first(*given: Any) -> Any:
    """With a list, step was given its first generator alone. Hand on the list: each image has the
    noise of its own generator in every step too."""
    return run(given, for_steps=lambda g: g[0] if is_list(g) else g)


@generation("generator-not-passed-to-step")
def no_step_generator(*given: Any) -> Any:
    """step drew its noise without your generator. A scheduler that draws in every step needs it, or
    nobody can repeat the run."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)  # as `given.components` leaves it
        return run(given, takes=lambda scheduler: False)


@generation("step-from-the-scaled-latents")
def stepped_from_scaled(*given: Any) -> Any:
    """step was given the scaled latents. Only the network sees those: keep them in a variable of
    their own, and step from the latents as they were."""
    return run(given, stepped=lambda x, seen: seen)


@generation("turn-number-for-the-timestep")
def number_for_timestep(*given: Any) -> Any:
    """The network was given the number of the turn. It knows noise levels by their timestep t."""
    return run(given, asked=lambda t, i: i)


@generation("factor-read-before-set-timesteps", LATENTS)
def factor_too_early(*given: Any) -> Any:
    """init_noise_sigma was read before set_timesteps. It is the size of this run's first level, and
    with the spacing "leading" a short run begins lower: lay out the run first."""
    early = given[0]["scheduler"].init_noise_sigma

    def noise(shape: Any, s: Any, g: Any, like: Tensor) -> Tensor:
        return normal(shape, g, like.dtype, like.device).mul(early)

    return run(given, noise=noise)


@generation("first-noise-not-scaled", LATENTS)
def start_not_scaled(*given: Any) -> Any:
    """The run began with noise of size 1. Multiply it by the scheduler's init_noise_sigma."""
    return run(given, noise=lambda shape, s, g, like: normal(shape, g, like.dtype, like.device))


@generation("network-input-not-scaled")
def input_not_scaled(*given: Any) -> Any:
    """The network saw the latents as they are. Call scale_model_input in every turn; DDIM and PNDM
    do not mind, Euler and Heun do."""
    return run(given, seen=lambda scheduler, x, t: x)


@generation("steps-counted", f"{PIPELINE}#the-call")
def steps_counted(*given: Any) -> Any:
    """The loop made as many turns as there are steps. Heun and PNDM have more timesteps than steps:
    go through all of them."""
    return run(given, times=lambda scheduler, steps: scheduler.timesteps[:steps])


@generation("negative-and-prompt-swapped", f"{TEXT}#rows")
def swapped_texts(*given: Any) -> Any:
    """Prompts and negative prompts changed places. The picture runs away from the prompt."""
    return run((given[0], given[2], given[1], *given[3:]), guide=guide)


@generation("negative-prompt-not-read", f"{TEXT}#the-negative-prompt")
def negative_ignored(*given: Any) -> Any:
    """The negative prompts were taken to be empty. They take the place of the empty text in the
    unconditional half."""
    return run((*given[:2], [""] * len(given[2]), *given[3:]))


@generation("guided-at-every-scale", "handbook/guidance.md#scale-one-and-zero")
def always_guided(*given: Any) -> Any:
    """Guidance was applied at a scale below 1. A pipeline guides above 1 only; otherwise it asks
    about the prompt alone."""
    return run(given, guides=lambda w: True)


@generation("difference-turned-round", "handbook/guidance.md#the-formula")
def difference_turned_round(*given: Any) -> Any:
    """The difference is the wrong way round: unconditional minus conditional points away from the
    prompt."""
    return run(given, guide=lambda u, c, w: guide(u, c, -w))


@generation("scale-counted-from-the-prompt", "handbook/guidance.md#two-ways-to-count")
def counted_from_the_prompt(*given: Any) -> Any:
    """The scale was counted from the conditional prediction, c + w·(c − u). Count from u."""
    return run(given, guide=lambda u, c, w: guide(u, c, w + 1))


@generation("images-in-turns", ROWS)
def images_in_turns(*given: Any) -> Any:
    """The pictures come as [a, b, a, b]. Those of one prompt stand together: [a, a, b, b]."""

    def turns(parts: Parts, texts: list[str], n: int) -> Tensor:
        return torch.cat([read(parts, texts, 1)] * n)

    return run(given, read=turns)


@generation("eight-for-every-vae", "handbook/vae.md#the-latent-shape")
def eighths(*given: Any) -> Any:
    """The sides were divided by 8. How much a VAE shrinks them is told by its number of blocks:
    2 ** (blocks - 1)."""
    return run(given, factor=lambda parts: 8)


@generation("latents-not-unscaled", "handbook/vae.md#scaling-the-latents")
def not_unscaled(*given: Any) -> Any:
    """The latents went into the VAE as they were. Divide them by its scaling_factor first."""
    return run(given, unscaled=lambda parts, x: x)


@generation("latents-scaled-again", "handbook/vae.md#scaling-the-latents")
def scaled_again(*given: Any) -> Any:
    """The latents were multiplied by scaling_factor once more. Decoding undoes it: divide."""
    return run(given, unscaled=lambda parts, x: x * parts["vae"].config.scaling_factor)


@generation("factor-of-another-vae", "handbook/vae.md#scaling-the-latents")
def another_factor(*given: Any) -> Any:
    """The latents were divided by 0.18215, which belongs to one VAE. Read vae.config."""
    return run(given, unscaled=lambda parts, x: x / 0.18215)


@generation("decoder-called-directly", "handbook/vae.md#decoding")
def bare_decoder(*given: Any) -> Any:
    """vae.decoder was called, which leaves out the convolution in front of it. Call vae.decode."""
    return run(given, decode=lambda vae, z: vae.decoder(z))


@generation("range-not-brought-back", "handbook/vae.md#pixels-and-the-models-range")
def range_kept(*given: Any) -> Any:
    """The decoder's −1 … 1 was taken for 0 … 1: everything darker than grey is black."""
    return run(given, pixels=lambda x: x.clamp(0, 1).mul(255).round().byte().movedim(1, 3))


@generation("channels-left-first", "handbook/vae.md#pixels-and-the-models-range")
def channels_first(*given: Any) -> Any:
    """The pictures have their channels first, as networks want them. Pictures have them last."""
    return run(given, pixels=lambda x: bytes_of(x).movedim(3, 1))


# 6.6


def in_library(name: str) -> Any:
    return getattr(importlib.import_module("diffusers"), name)


def remade(parts: Parts, name: str) -> Any:
    """The compact twin."""
    old = parts["scheduler"]
    return in_library(name).from_config(old.config)


def swap(name: str) -> Callable[[Wrong], Wrong]:
    return misconception("6.6", name, replaces="swap_scheduler", reads=SWAP)


@swap("configuration-in-part")
def betas_alone(parts: Parts, name: str) -> Any:
    """Only a part of the old configuration was taken along. Prediction type, spacing and offset are
    part of what the network was trained and tested with; from_config takes every field that the new
    class knows."""
    fields = ("num_train_timesteps", "beta_start", "beta_end", "beta_schedule")
    old = parts["scheduler"].config
    return in_library(name)(**{field: old[field] for field in fields})


@swap("scheduler-made-anew")
def made_anew(parts: Parts, name: str) -> Any:
    """The new scheduler has its class's defaults. The network was trained on one noise schedule and
    one kind of prediction: take the old one's configuration along with from_config."""
    return in_library(name)()


@swap("class-not-changed")
def class_not_changed(parts: Parts, name: str) -> Any:
    """The new scheduler has the old class. Make it with the class whose name was given."""
    return remade(parts, type(parts["scheduler"]).__name__)


@swap("old-scheduler-shared")
def shared(parts: Parts, name: str) -> Any:
    """The old scheduler itself came back, because it is of this class already. Two users of one
    scheduler share its step counter and its timesteps: make a new one."""
    same = type(parts["scheduler"]).__name__ == name
    return parts["scheduler"] if same else remade(parts, name)


@swap("timesteps-taken-along")
def taken_along(parts: Parts, name: str) -> Any:
    """The new scheduler was given timesteps already. How many steps there are is said by whoever
    runs it; a swap only changes the rule."""
    new, steps = remade(parts, name), parts["scheduler"].num_inference_steps
    if steps is not None:
        new.set_timesteps(steps)
    return new


@swap("components-changed")
def components_changed(parts: Parts, name: str) -> Any:
    """The new scheduler was put into the components. Whoever holds that dict has now another model
    than before: only give the scheduler back."""
    parts["scheduler"] = remade(parts, name)
    return parts["scheduler"]


# 6.7


def begun(scheduler: Any, skipped: int) -> Any:
    """The compact twin's end: the scheduler knows where it begins, and the rest is returned."""
    if callable(getattr(scheduler, "set_begin_index", None)):
        scheduler.set_begin_index(skipped)
    return scheduler.timesteps[skipped:]


def kept_of(scheduler: Any, n: int, strength: float) -> int:
    scheduler.set_timesteps(n)
    kept = int(n * strength)
    if kept == 0:
        raise ValueError("nothing is left to do")
    return min(kept, n)


def start(name: str) -> Callable[[Wrong], Wrong]:
    return misconception("6.7", name, replaces="img2img_timesteps", reads=START)


Started = tuple[Tensor, int]


@start("begin-in-steps")
def begin_in_steps(scheduler: Any, n: int, strength: float) -> Started:
    """set_begin_index was told a number of steps. It counts entries of timesteps: steps · order."""
    kept = kept_of(scheduler, n, strength)
    begun(scheduler, n - kept)
    return scheduler.timesteps[(n - kept) * scheduler.order :], kept


@start("order-ignored")
def order_ignored(scheduler: Any, n: int, strength: float) -> Started:
    """A step was taken for one timestep. Heun has two for each: skip steps · order entries."""
    kept = kept_of(scheduler, n, strength)
    return begun(scheduler, n - kept), kept


@start("timesteps-counted-for-steps")
def timesteps_counted(scheduler: Any, n: int, strength: float) -> Started:
    """The number of timesteps was returned. Heun has about two for each step and PNDM one more;
    the number that is wanted is of steps."""
    left = begun(scheduler, (n - kept_of(scheduler, n, strength)) * scheduler.order)
    return left, len(left)


@start("strength-rounded")
def rounded(scheduler: Any, n: int, strength: float) -> Started:
    """steps · strength was rounded to the nearest, or the steps to skip were rounded down. The
    steps to do are rounded down: int(steps · strength)."""
    kept_of(scheduler, n, max(strength, 1 / n) if n * strength >= 1 else 0)
    kept = round(n * strength)
    return begun(scheduler, (n - kept) * scheduler.order), kept


@start("begin-not-told")
def begin_not_told(scheduler: Any, n: int, strength: float) -> Started:
    """The scheduler was not told where it begins. It then looks the first timestep up, which goes
    wrong where one is there twice, as with Heun."""
    kept = kept_of(scheduler, n, strength)
    return scheduler.timesteps[(n - kept) * scheduler.order :], kept


@start("first-steps-kept")
def first_kept(scheduler: Any, n: int, strength: float) -> Started:
    """The first steps were kept. The image takes their place: what is left are the last ones, at
    lower noise."""
    kept = kept_of(scheduler, n, strength)
    return scheduler.timesteps[: kept * scheduler.order], kept


@start("strength-turned-round")
def turned_round(scheduler: Any, n: int, strength: float) -> Started:
    """A strong change left little of the schedule. Strength 1 is all of it, 0 none."""
    skipped = kept_of(scheduler, n, strength) % n
    return begun(scheduler, skipped * scheduler.order), n - skipped


@start("all-steps-reported")
def all_reported(scheduler: Any, n: int, strength: float) -> Started:
    """The number of steps is the one that was asked for. It is what strength leaves of it."""
    return begun(scheduler, (n - kept_of(scheduler, n, strength)) * scheduler.order), n


@start("timesteps-not-set")
def not_set(scheduler: Any, n: int, strength: float) -> Started:
    """set_timesteps was not called: these are entries of the training schedule, or of an earlier
    run. Set the timesteps, then cut."""
    kept = int(n * strength)
    if kept == 0:
        raise ValueError("nothing is left to do")
    return begun(scheduler, (n - kept) * scheduler.order), kept


@start("every-scheduler-told")
def every_told(scheduler: Any, n: int, strength: float) -> Started:
    """set_begin_index was called on a scheduler that has none, such as DDIM and PNDM. Ask first:
    hasattr."""
    skipped = (n - kept_of(scheduler, n, strength)) * scheduler.order
    scheduler.set_begin_index(skipped)
    return scheduler.timesteps[skipped:], n - skipped // scheduler.order


@start("nothing-returned")
def nothing_returned(scheduler: Any, n: int, strength: float) -> Started:
    """With no step left an empty schedule came back, and what follows fails in the middle of
    nowhere (the library does that). Say so at once: ValueError."""
    scheduler.set_timesteps(n)
    kept = min(int(n * strength), n)
    return begun(scheduler, (n - kept) * scheduler.order), kept


@start("one-step-forced")
def one_forced(scheduler: Any, n: int, strength: float) -> Started:
    """One step was done although the strength leaves none. That is a choice for whoever calls:
    refuse with ValueError."""
    scheduler.set_timesteps(n)
    kept = max(1, min(int(n * strength), n))
    return begun(scheduler, (n - kept) * scheduler.order), kept
