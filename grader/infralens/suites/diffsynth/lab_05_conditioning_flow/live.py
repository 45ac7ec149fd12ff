"""What diffusers does with conditions: its pipelines with stand-ins for what is not asked for, and
its attention layers with weights that a check draws.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import diffusers
import torch
from diffusers.models.attention_processor import (
    Attention,
    IPAdapterAttnProcessor2_0,
    JointAttnProcessor2_0,
)
from diffusers.models.transformers.transformer_flux import FluxAttention
from torch import Tensor

from infralens.examiner import quiet_transformers
from infralens.suites import configs
from infralens.suites.networks import frozen, seeded
from infralens.suites.releases import since

Pair = tuple[Tensor, Tensor]
Weights = Mapping[str, Tensor]


@functools.lru_cache
def pipeline_class(name: str) -> Any:
    """A pipeline of diffusers; its methods are called with stand-ins for `self`."""
    quiet_transformers()
    return getattr(diffusers, name)


# Encoders


class Encoder(torch.nn.Module):
    """Gives what a check drew, whatever it is asked; pipelines look at its dtype and device."""

    device = torch.device("cpu")

    def __init__(self, answer: Callable[..., Any], dtype: torch.dtype = torch.float32) -> None:
        super().__init__()
        self.answer, self.dtype = answer, dtype
        self.config = SimpleNamespace()

    def forward(self, ids: Tensor, *_: Any, **__: Any) -> Any:
        return self.answer(ids)


class Ids:
    """What a tokenizer gives."""

    def __init__(self, ids: Tensor, mask: Tensor | None = None) -> None:
        self.input_ids = ids
        self.attention_mask = torch.ones_like(ids) if mask is None else mask

    def to(self, _: Any) -> Ids:
        return self


class Words:
    """A tokenizer that knows whole texts, each by its number."""

    model_max_length = 1

    def __init__(self, texts: Sequence[str]) -> None:
        self.numbers = {text: number for number, text in enumerate(texts)}

    def __call__(self, texts: Sequence[str], **_: Any) -> Ids:
        return Ids(torch.tensor([[self.numbers[text]] for text in texts]))


def output_of(given: Mapping[str, Any]) -> Any:
    """What a text encoder gives, in the class that transformers has for it."""
    if "text_embeds" in given:
        from transformers.models.clip.modeling_clip import CLIPTextModelOutput

        return CLIPTextModelOutput(**given)
    from transformers.modeling_outputs import BaseModelOutputWithPooling

    return BaseModelOutputWithPooling(**given)


def sdxl_encoded(outputs: Sequence[Mapping[str, Any]], clip_skip: int | None) -> Pair:
    """What StableDiffusionXLPipeline makes of what its encoders give: the positive side."""
    encode = pipeline_class("StableDiffusionXLPipeline").encode_prompt
    prompts = [str(row) for row in range(len(outputs[0]["last_hidden_state"]))]
    words = Words(prompts)
    *first, last = (Encoder(lambda _, given=given: output_of(given)) for given in outputs)
    pipe = SimpleNamespace(  # the refiner has its second encoder alone
        _execution_device="cpu",
        config=SimpleNamespace(force_zeros_for_empty_prompt=True),
        tokenizer=words if first else None,
        tokenizer_2=words,
        text_encoder=first[0] if first else None,
        text_encoder_2=last,
    )
    embeds, _, pooled, _ = encode(
        pipe, prompts, do_classifier_free_guidance=False, clip_skip=clip_skip
    )
    return embeds, pooled


def sdxl_negative_layer(clip_skip: int) -> float:
    """From which layer the states of a negative prompt come, of encoders with four."""
    states = [torch.full((1, 1, 1), float(layer)) for layer in range(5)]
    given = {"text_embeds": torch.zeros(1, 1), "hidden_states": states}
    words = Words(["a prompt", "a negative one"])
    pipe = SimpleNamespace(
        _execution_device="cpu",
        config=SimpleNamespace(force_zeros_for_empty_prompt=True),
        tokenizer=None,
        tokenizer_2=words,
        text_encoder=None,
        text_encoder_2=Encoder(lambda _: output_of(given)),
    )
    _, negative, _, _ = pipeline_class("StableDiffusionXLPipeline").encode_prompt(
        pipe, ["a prompt"], negative_prompt=["a negative one"], clip_skip=clip_skip
    )
    return float(negative)


def sd3_encoded(
    clip_hidden: Sequence[Tensor],
    clip_pooled: Sequence[Tensor],
    t5_hidden: Tensor | None,
    width: int,
    t5_length: int,
) -> Pair:
    """What StableDiffusion3Pipeline makes of the states of two CLIPs and of T5."""
    kind, dtype = pipeline_class("StableDiffusion3Pipeline"), clip_hidden[0].dtype
    prompts = [str(row) for row in range(len(clip_hidden[0]))]
    words = Words(prompts)
    clips = [
        Encoder(lambda _, given=given: output_of(given), dtype)
        for hidden, pooled in zip(clip_hidden, clip_pooled, strict=True)
        for given in [{"text_embeds": pooled, "hidden_states": (hidden, hidden * 0)}]
    ]
    t5 = None if t5_hidden is None else Encoder(lambda _: (t5_hidden,), dtype)
    pipe = SimpleNamespace(
        _execution_device="cpu",
        tokenizer_max_length=clip_hidden[0].shape[1],
        tokenizer=words,
        tokenizer_2=words,
        tokenizer_3=words,
        text_encoder=clips[0],
        text_encoder_2=clips[1],
        text_encoder_3=t5,
        transformer=SimpleNamespace(config=SimpleNamespace(joint_attention_dim=width)),
    )
    pipe._get_clip_prompt_embeds = functools.partial(kind._get_clip_prompt_embeds, pipe)
    pipe._get_t5_prompt_embeds = functools.partial(kind._get_t5_prompt_embeds, pipe)
    embeds, _, pooled, _ = kind.encode_prompt(
        pipe,
        *(prompts, None, None),
        do_classifier_free_guidance=False,
        max_sequence_length=t5_length,
    )
    return embeds, pooled


class Table:
    """An encoder of whole texts: a row of states and of a pooled vector for each that it knows."""

    def __init__(self, texts: Sequence[str], hidden: Tensor, pooled: Tensor) -> None:
        self.words, self.hidden, self.pooled = Words(texts), hidden, pooled
        self.asked: list[str] = []

    def encode(self, texts: list[str]) -> Pair:
        """The callback that is lent; `asked` are the texts of all its calls."""
        if not isinstance(texts, list | tuple) or not all(t in self.words.numbers for t in texts):
            raise ValueError(
                f"encode takes a list of the texts that were given, and was given {texts!r}"
            )
        self.asked += texts
        rows = self.words(texts).input_ids[:, 0]
        return self.hidden[rows], self.pooled[rows]

    def through_sdxl(
        self, prompts: Sequence[str], negative: Any, force_zeros: bool
    ) -> tuple[Pair, Pair]:
        """What StableDiffusionXLPipeline makes of these texts with this encoder."""

        def answer(ids: Tensor) -> Any:
            rows = ids[:, 0]
            states = self.hidden[rows]
            return output_of({"text_embeds": self.pooled[rows], "hidden_states": (states, -states)})

        pipe = SimpleNamespace(
            _execution_device="cpu",
            config=SimpleNamespace(force_zeros_for_empty_prompt=force_zeros),
            tokenizer=None,
            tokenizer_2=self.words,
            text_encoder=None,
            text_encoder_2=Encoder(answer, self.hidden.dtype),
        )
        embeds, negative_embeds, pooled, negative_pooled = pipeline_class(
            "StableDiffusionXLPipeline"
        ).encode_prompt(pipe, list(prompts), negative_prompt=negative)
        return (embeds, pooled), (negative_embeds, negative_pooled)


class Padded:
    """A tokenizer that gives a mask, and an encoder that gives states, whatever the prompts are."""

    def __init__(self, hidden: Tensor, mask: Tensor) -> None:
        self.hidden, self.mask = hidden, mask
        self.prompts = [""] * len(hidden)

    def _stand_in(self, **more: Any) -> SimpleNamespace:
        states = SimpleNamespace(
            last_hidden_state=self.hidden, hidden_states=(-self.hidden, self.hidden)
        )
        return SimpleNamespace(
            _execution_device=torch.device("cpu"),
            tokenizer=lambda *_, **__: Ids(self.mask, self.mask),
            text_encoder=Encoder(lambda _: states, self.hidden.dtype)
            if "prompt_template_encode" not in more
            else _ByName(states, self.hidden.dtype),
            **more,
        )

    def through_wan(self, length: int) -> Tensor:
        """The states as WanPipeline hands them on, padded to this length."""
        kind = pipeline_class("WanPipeline")
        if not since("0.37"):  # it cleans a prompt with ftfy, there or not
            sys.modules[kind.__module__].__dict__.setdefault("ftfy", SimpleNamespace(fix_text=str))
        embeds: Tensor = kind._get_t5_prompt_embeds(
            self._stand_in(), self.prompts, max_sequence_length=length
        )
        return embeds

    def through_qwen(self, drop: int) -> Pair:
        """States and mask as QwenImagePipeline hands them on, without a template of `drop`."""
        kind = pipeline_class("QwenImagePipeline")
        pipe = self._stand_in(
            prompt_template_encode="{}",
            prompt_template_encode_start_idx=drop,
            tokenizer_max_length=self.mask.shape[1],
            _extract_masked_hidden=functools.partial(kind._extract_masked_hidden, None),
        )
        embeds, mask = kind._get_qwen_prompt_embeds(pipe, self.prompts)
        return embeds, mask


class _ByName(Encoder):
    """Qwen's encoder is called with all arguments by name."""

    def __init__(self, states: Any, dtype: torch.dtype) -> None:
        super().__init__(lambda _: states, dtype)

    def forward(self, **_: Any) -> Any:  # type: ignore[override]
        return self.answer(None)


# Attention


def _sides(width: int, size: int, heads: int) -> dict[str, Any]:
    """What SD3's and Flux' layers are built with alike."""
    shared = {"query_dim": width, "added_kv_proj_dim": width, "heads": heads, "dim_head": size}
    return {**shared, "bias": True, "eps": 1e-6}


def _sd3_layer(**shared: Any) -> Any:
    return Attention(
        **shared,
        out_dim=shared["query_dim"],
        context_pre_only=False,
        qk_norm="rms_norm",
        processor=JointAttnProcessor2_0(),
    )


def _joint(weights: Weights, heads: int, kind: str) -> Any:
    inner, width = weights["to_q.weight"].shape
    shared = _sides(width, inner // heads, heads)
    layer: Any = FluxAttention(**shared) if kind == "FluxAttention" else _sd3_layer(**shared)
    layer.load_state_dict(dict(weights))
    return frozen(layer)


def drawn_joint(width: int, heads: int) -> dict[str, Tensor]:
    """Weights of a joint attention as it is built, of torch's own draws."""
    layer = _sd3_layer(**_sides(width, width // heads, heads))
    return {name: value.detach() for name, value in layer.state_dict().items()}


def joint_of_sd3(image: Tensor, text: Tensor, weights: Weights, heads: int, **more: Any) -> Pair:
    """Both streams through the attention of Stable Diffusion 3: the picture first, no mask."""
    pair: Pair = _joint(weights, heads, "Attention")(image, text, **more)
    return pair


def joint_of_flux(
    image: Tensor, text: Tensor, weights: Weights, heads: int, mask: Tensor | None
) -> Pair:
    """Both streams through Flux' attention: the text first, and a mask of both."""
    seen = None
    if mask is not None:
        every = torch.ones(image.shape[:2], dtype=torch.bool)
        seen = torch.cat([mask, every], dim=1)[:, None, None]
    pair: Pair = _joint(weights, heads, "FluxAttention")(image, text, attention_mask=seen)
    return pair


def image_prompted(
    hidden: Tensor,
    text: Tensor,
    images: Sequence[Tensor],
    weights: Weights,
    heads: int,
    scales: Sequence[float],
) -> Tensor:
    """Cross-attention with IPAdapterAttnProcessor2_0, which has an adapter for each scale."""
    inner, width = weights["to_q.weight"].shape
    context = text.shape[-1]
    processor = IPAdapterAttnProcessor2_0(
        inner, context, num_tokens=[4] * len(scales), scale=list(scales)
    )
    layer = Attention(
        query_dim=width,
        cross_attention_dim=context,
        heads=heads,
        dim_head=inner // heads,
        processor=processor,
    )
    layer.load_state_dict(
        {f"processor.{name}" if "_ip." in name else name: value for name, value in weights.items()}
    )
    result: Tensor = frozen(layer)(hidden, (text, list(images)))
    return result


# Rows


class _Seen(Exception):  # noqa: N818  # no error: what was looked for is here
    def __init__(self, found: Any) -> None:
        super().__init__()
        self.found = found


SIZES = {"original_size": (96, 64), "crops_coords_top_left": (3, 5), "target_size": (48, 80)}
NEGATIVE = {f"negative_{name}": tuple(n + 7 for n in size) for name, size in SIZES.items()}


@functools.lru_cache
def sdxl(states: int, vector: int) -> Any:
    """StableDiffusionXLPipeline with a UNet that takes states and pooled vectors so wide."""
    quiet_transformers()
    unet = configs.DENOISERS["UNet2DConditionModel"](
        in_channels=4,
        out_channels=4,
        cross_attention_dim=states,
        addition_embed_type="text_time",
        addition_time_embed_dim=2,
        projection_class_embeddings_input_dim=6 * 2 + vector,
    )
    with seeded(0):
        network = frozen(configs.network(unet))
    return configs.pipeline(
        "StableDiffusionXLPipeline",
        unet=network,
        scheduler=diffusers.EulerDiscreteScheduler(),
        add_watermarker=False,
    )


def into_unet(
    positive: Weights, negative: Weights | None, images: int, **more: Any
) -> dict[str, Tensor]:
    """What the UNet is given beside its latents, in a run for these embeddings and vectors."""
    embeds, pooled = positive["encoder_hidden_states"], positive["text_embeds"]
    pipe = sdxl(embeds.shape[-1], pooled.shape[-1])
    call: dict[str, Any] = {"prompt_embeds": embeds, "pooled_prompt_embeds": pooled}
    if negative is not None:
        call["negative_prompt_embeds"] = negative["encoder_hidden_states"]
        call["negative_pooled_prompt_embeds"] = negative["text_embeds"]

    def look(_: Any, __: Any, given: Any) -> None:
        found = {"encoder_hidden_states": given["encoder_hidden_states"]}
        raise _Seen(found | given["added_cond_kwargs"])

    hook = pipe.unet.register_forward_pre_hook(look, with_kwargs=True)
    try:
        pipe(
            **call,
            **{"height": 48, "width": 80, **SIZES, **more},
            num_images_per_prompt=images,
            guidance_scale=1.0 if negative is None else 5.0,
            num_inference_steps=1,
        )
    except _Seen as seen:
        found: dict[str, Tensor] = seen.found
        return found
    finally:
        hook.remove()
    raise AssertionError("the UNet was not called")


def time_ids(prefix: str = "") -> Tensor:
    """The row of six numbers of these sizes."""
    sizes = NEGATIVE if prefix else SIZES
    return torch.tensor([[float(n) for size in sizes.values() for n in size]])


# Pictures beside pictures

CHANNELS = 64  # of a token: 16 of the latents that the pipeline takes for its own, packed 2 × 2


class Denoiser(torch.nn.Module):
    """A transformer for FluxKontextPipeline that passes tokens and ids on to a function."""

    dtype, device = torch.float32, torch.device("cpu")

    def __init__(self, function: Callable[[Tensor, Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function
        self.config = SimpleNamespace(in_channels=CHANNELS, guidance_embeds=False)

    def forward(self, hidden_states: Tensor, img_ids: Tensor, **_: Any) -> tuple[Tensor]:
        return (self.function(hidden_states, img_ids),)


def packed_back(tokens: Tensor, height: int, width: int) -> Tensor:
    """The latents of which Flux packs these tokens."""
    squares = tokens.reshape(len(tokens), height, width, -1, 2, 2).permute(0, 3, 1, 4, 2, 5)
    return squares.flatten(4).flatten(2, 3)


def through_kontext(
    denoiser: Callable[[Tensor, Tensor], Tensor],
    tokens: Tensor,
    grid: tuple[int, int],
    reference: tuple[Tensor, tuple[int, int]],
) -> Tensor:
    """What FluxKontextPipeline's scheduler is given to step with: what the network predicted."""
    (height, width), (other, its_grid) = grid, reference
    rows = len(tokens)
    scheduler = configs.flow()
    pipe = configs.pipeline(
        "FluxKontextPipeline", transformer=Denoiser(denoiser), scheduler=scheduler
    )

    def stop(predicted: Tensor, *_: Any, **__: Any) -> None:
        raise _Seen(predicted)

    scheduler.step = stop
    try:
        pipe(
            image=packed_back(other, *its_grid),
            latents=tokens,
            prompt_embeds=torch.zeros(rows, 1, 4),
            pooled_prompt_embeds=torch.zeros(rows, 4),
            height=16 * height,
            width=16 * width,
            max_area=256 * height * width,
            num_inference_steps=1,
        )
    except _Seen as seen:
        predicted: Tensor = seen.found
        return predicted
    raise AssertionError("the scheduler was not asked to step")
