"""Lab 07: the learner's conditioning against the layers, blocks and models of diffusers."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache, lru_cache, partial
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from diffusers import DiTTransformer2DModel, SD3Transformer2DModel, UNet2DConditionModel
from diffusers.models.attention import BasicTransformerBlock
from diffusers.models.attention_processor import Attention, AttnProcessor
from diffusers.models.embeddings import PatchEmbed, get_timestep_embedding
from diffusers.models.normalization import AdaLayerNormZero
from torch import Tensor

from infralens.examiner import (
    Draw,
    assert_equals,
    assert_matches,
    assert_property,
    assert_tensor,
    library_function,
    todo,
    unpack,
)
from infralens.suites.networks import frozen, seeded

# The angle is a float32 product of up to 1400: its rounding alone moves a sine by 1e-4. That also
# sets the tolerance, so many angles are drawn: over few the library may be exact by chance.
ANGLE_ULPS = 2048
MODULATION = ("normalised", "gate_msa", "shift_mlp", "scale_mlp", "gate_mlp")


# 7.1


def sinusoids(t: Tensor, dim: int, flip: bool, shift: float) -> Tensor:
    """Vaswani et al. 2017, section 3.5, in float64."""
    half = dim // 2
    exponent = torch.arange(half, dtype=torch.float64, device=t.device) / (half - shift)
    angle = t.double().outer(10000**-exponent)
    halves = [angle.cos(), angle.sin()] if flip else [angle.sin(), angle.cos()]
    return torch.cat([*halves, angle.new_zeros(len(t), dim % 2)], dim=1)


def draw_timesteps(draw: Draw, count: int, kind: str) -> Tensor:
    """Timesteps up to 1000: whole as int64, or fractions that no rounding hides."""
    whole = draw.tensor(count, low=1, high=999).floor()
    if kind == "whole":
        return whole.long()
    return whole + draw.tensor(count, low=0.25, high=0.75)


@todo("7.1")
@pytest.mark.parametrize("dim", ["even", "odd", "twice the batch", "four"])
@pytest.mark.parametrize("shift", ["zero", "one", "between"])
@pytest.mark.parametrize("first", ["cosines", "sines"])
def test_a_timestep_becomes_waves_of_many_lengths(
    candidate: Any, draw: Draw, first: str, shift: str, dim: str
) -> None:
    """timestep_embedding is get_timestep_embedding, for every order, shift and dimension."""
    half = 2 if dim == "four" else draw.integer(5, 40)
    t = draw_timesteps(draw, half if dim == "twice the batch" else draw.choice([41, 43]), "whole")
    by = {"zero": 0, "one": 1, "between": draw.uniform(0.3, 0.7)}[shift]
    size, flip = 2 * half + (dim == "odd"), first == "cosines"
    assert_matches(
        candidate.timestep_embedding(t, size, flip, by),
        library=lambda: get_timestep_embedding(t, size, flip, by),
        truth=lambda: sinusoids(t, size, flip, by),
        what=f"the embedding in {size} numbers, {first} first, shift {by}",
        agreement_ulps=ANGLE_ULPS,
    )


@todo("7.1")
def test_fractions_of_a_timestep_count(candidate: Any, draw: Draw) -> None:
    """Schedulers ask at 12.5 as well: that is between 12 and 13."""
    t, dim = draw_timesteps(draw, 41, "fractional"), 2 * draw.integer(6, 20)
    assert_matches(
        candidate.timestep_embedding(t, dim, True, 0),
        library=lambda: get_timestep_embedding(t, dim, True, 0),
        truth=lambda: sinusoids(t, dim, True, 0),
        what="the embedding of fractional timesteps",
        agreement_ulps=ANGLE_ULPS,
    )


# 7.2


def draw_linear(
    draw: Draw, name: str, out: int, width: int, bias: bool = True, gain: float = 1.5
) -> dict[str, Tensor]:
    """A linear layer's weights, lively enough that a softmax behind it is not flat."""
    weights = {f"{name}.weight": draw.latents(out, width) * gain / math.sqrt(width)}
    return weights | ({f"{name}.bias": draw.latents(out) / 2} if bias else {})


def draw_attention(
    draw: Draw, width: int, context_width: int, inner: int, bias: bool
) -> dict[str, Tensor]:
    """The weights of an attention layer; with `bias` its three projections in have one."""
    return {
        **draw_linear(draw, "to_q", inner, width, bias),
        **draw_linear(draw, "to_k", inner, context_width, bias),
        **draw_linear(draw, "to_v", inner, context_width, bias),
        **draw_linear(draw, "to_out.0", width, inner),
    }


def linear(x: Tensor, weights: dict[str, Tensor], name: str) -> Tensor:
    """The layer of this name, in float64."""
    bias = weights.get(f"{name}.bias")
    result = x.double() @ weights[f"{name}.weight"].double().T
    return result if bias is None else result + bias.double()


def attended(
    hidden: Tensor, context: Tensor, weights: dict[str, Tensor], heads: int, mask: Tensor | None
) -> Tensor:
    """Vaswani et al. 2017, section 3.2, in float64."""
    seen = torch.ones(context.shape[:2], device=hidden.device) if mask is None else mask
    gathered = []
    query = linear(hidden, weights, "to_q").chunk(heads, dim=-1)
    key = linear(context, weights, "to_k").chunk(heads, dim=-1)
    value = linear(context, weights, "to_v").chunk(heads, dim=-1)
    for q, k, v in zip(query, key, value, strict=True):
        likeness = (torch.einsum("bnd,bmd->bnm", q, k) / math.sqrt(q.shape[-1])).exp()
        share = likeness * seen[:, None, :]
        gathered.append(share / share.sum(dim=-1, keepdim=True) @ v)
    return linear(torch.cat(gathered, dim=-1), weights, "to_out.0")


def attention_of_the_library(
    hidden: Tensor, context: Tensor | None, weights: dict[str, Tensor], heads: int, mask: Any
) -> Any:
    """diffusers' Attention, its classic processor, given these weights."""
    inner, width = weights["to_q.weight"].shape
    library = Attention(
        query_dim=width,
        cross_attention_dim=None if context is None else context.shape[-1],
        heads=heads,
        dim_head=inner // heads,
        bias="to_q.bias" in weights,
        processor=AttnProcessor(),
    )
    library.load_state_dict(weights)
    hides = None if mask is None else ((1 - mask.to(hidden.dtype)) * -10000.0)[:, None]
    return frozen(library, hidden.device)(hidden, context, attention_mask=hides)


def assert_attends(
    candidate: Any,
    hidden: Tensor,
    context: Tensor | None,
    weights: dict[str, Tensor],
    heads: int,
    mask: Tensor | None = None,
) -> None:
    """cross_attention gives what diffusers' Attention gives."""
    assert_matches(
        candidate.cross_attention(hidden, context, weights, heads, mask),
        library=lambda: attention_of_the_library(hidden, context, weights, heads, mask),
        truth=lambda: attended(
            hidden, hidden if context is None else context, weights, heads, mask
        ),
        what="what the hidden tokens gathered",
    )


def draw_heads(draw: Draw) -> tuple[int, int]:
    """A number of heads and a head size, never the same number."""
    return draw.choice([2, 3, 4]), draw.choice([5, 6, 8])


@todo("7.2")
@pytest.mark.parametrize("widths", ["different widths", "equal widths"])
@pytest.mark.parametrize("bias", [False, True], ids=["no bias", "bias"])
def test_image_tokens_gather_from_text_tokens(
    candidate: Any, draw: Draw, bias: bool, widths: str
) -> None:
    """Queries come from the image, keys and values from the text, as in Attention."""
    heads, size = draw_heads(draw)
    width = draw.choice([9, 10, 14])
    context_width = width if widths == "equal widths" else width + draw.choice([-2, 3])
    hidden, context = draw.latents(3, 10, width), draw.latents(3, 7, context_width)
    weights = draw_attention(draw, width, context_width, heads * size, bias)
    assert_attends(candidate, hidden, context, weights, heads)


@todo("7.2", guards="self-attention, as a DiT block uses it")
def test_without_a_context_tokens_gather_from_each_other(candidate: Any, draw: Draw) -> None:
    """context None is self-attention: Attention without encoder_hidden_states."""
    heads, size = draw_heads(draw)
    width = heads * size
    weights = draw_attention(draw, width, width, width, bias=False)
    assert_attends(candidate, draw.latents(2, 11, width), None, weights, heads)


def draw_mask(draw: Draw, batch: int, tokens: int) -> Tensor:
    """A mask that hides and keeps something in every row, and no two rows alike."""
    mask = draw.tensor(batch, tokens) < 0.6
    for row in range(batch):
        mask[row, row], mask[row, row + 1] = False, True
    return mask


@todo("7.2")
@pytest.mark.parametrize("sizes", ["different sizes", "batch is heads is tokens", "self-attention"])
def test_masked_tokens_of_the_context_are_not_seen(candidate: Any, draw: Draw, sizes: str) -> None:
    """A token whose mask is False gets no share, in any head, for any query."""
    heads, size = draw_heads(draw)
    batch, tokens = draw.choice([2, 5]), draw.choice([7, 9])
    width = draw.choice([9, 10, 14])
    if sizes == "batch is heads is tokens":
        batch = tokens = heads
    context: Tensor | None = draw.latents(batch, 8, width)
    hidden, mask = draw.latents(batch, tokens, width), draw_mask(draw, batch, 8)
    if sizes == "self-attention":
        context, mask = None, draw_mask(draw, batch, tokens)
    weights = draw_attention(draw, width, width, heads * size, bias=False)
    assert_attends(candidate, hidden, context, weights, heads, mask)


# 7.3


def tokens_of(latents: Tensor, patch: int) -> Tensor:
    """Peebles and Xie 2023, figure 4: squares, row by row; in each (p, q, c)."""
    squares = latents.double().unfold(2, patch, patch).unfold(3, patch, patch)
    return squares.permute(0, 2, 3, 4, 5, 1).flatten(3).flatten(1, 2)


def latents_of(tokens: Tensor, patch: int, height: int, width: int) -> Tensor:
    """The latents in which these tokens are the squares."""
    channels = tokens.shape[-1] // patch**2
    latents = tokens.new_zeros(len(tokens), channels, height, width, dtype=torch.float64)
    for number in range(tokens.shape[1]):
        y, x = (patch * place for place in divmod(number, width // patch))
        square = tokens[:, number].reshape(-1, patch, patch, channels).double()
        latents[:, :, y : y + patch, x : x + patch] = square.movedim(-1, 1)
    return latents


def draw_patches(draw: Draw) -> tuple[int, int, int, int]:
    """Patch size, channels, height and width, with which no two axes are of one length."""
    patch = draw.choice([3, 4])  # never 2: nearly every model has that
    rows, columns = draw.sample([4, 5, 6], 2)
    return patch, draw.choice([7, 8]), rows * patch, columns * patch


@lru_cache
def picking(patch: int, channels: int, device: torch.device) -> Any:
    """A PatchEmbed whose every output is one number of its patch, in the order (p, q, c)."""
    numbers = patch * patch * channels
    library = PatchEmbed(
        patch_size=patch,
        in_channels=channels,
        embed_dim=numbers,
        bias=False,
        pos_embed_type=None,
    )
    ones = torch.eye(numbers).reshape(numbers, patch, patch, channels)
    library.proj.weight.data = ones.permute(0, 3, 1, 2).contiguous()
    return frozen(library, device)


@todo("7.3", guards="the order in which PatchEmbed cuts")
def test_the_patches_are_those_of_patch_embed(candidate: Any, draw: Draw) -> None:
    """patchify cuts as PatchEmbed does, and orders each patch's numbers (p, q, c)."""
    patch, channels, height, width = draw_patches(draw)
    latents = draw.latents(3, channels, height, width)
    assert_matches(
        candidate.patchify(latents, patch),
        library=lambda: picking(patch, channels, latents.device)(latents),
        truth=lambda: tokens_of(latents, patch),
        what=f"the tokens of {height}×{width} latents, patch {patch}",
    )


@lru_cache
def stable_diffusion_3(patch: int, channels: int, device: torch.device) -> Any:
    """A tiny SD3Transformer2DModel."""
    library = SD3Transformer2DModel(
        patch_size=patch,
        in_channels=1,
        out_channels=channels,
        num_layers=1,
        attention_head_dim=4,
        num_attention_heads=2,
        joint_attention_dim=4,
        caption_projection_dim=8,
        pooled_projection_dim=4,
        pos_embed_max_size=12,
    )
    return frozen(library, device)


@lru_cache
def diffusion_transformer(patch: int, channels: int, device: torch.device) -> Any:
    """A tiny DiTTransformer2DModel."""
    library = DiTTransformer2DModel(
        patch_size=patch,
        in_channels=1,
        out_channels=channels,
        num_layers=1,
        attention_head_dim=4,
        num_attention_heads=2,
        num_embeds_ada_norm=3,
        sample_size=4 * patch,
    )
    return frozen(library, device)


def run_with(layer: Any, result: Tensor, run: Callable[[], Any]) -> Any:
    """What the model gives when this layer of it answers `result`."""
    hook = layer.register_forward_hook(lambda module, given, answer: result)
    try:
        return run()
    finally:
        hook.remove()


@todo("7.3", guards="latents that are not square")
@pytest.mark.parametrize("count", ["any number of tokens", "a square number of tokens"])
def test_tokens_become_latents_of_any_sides(candidate: Any, draw: Draw, count: str) -> None:
    """unpatchify puts tokens together as SD3Transformer2DModel does, for height ≠ width."""
    patch, channels, height, width = draw_patches(draw)
    if count == "a square number of tokens":
        rows, columns = draw.choice([(2, 8), (8, 2), (4, 9), (9, 4)])
        height, width = rows * patch, columns * patch
    tokens = draw.latents(2, height * width // patch**2, patch * patch * channels)
    library = stable_diffusion_3(patch, channels, tokens.device)
    zeros = partial(torch.zeros, device=tokens.device)

    def run() -> Any:
        prompt = {"encoder_hidden_states": zeros(2, 3, 4), "pooled_projections": zeros(2, 4)}
        return library(zeros(2, 1, height, width), timestep=zeros(2), **prompt).sample

    assert_matches(
        candidate.unpatchify(tokens, patch, height, width),
        library=lambda: run_with(library.proj_out, tokens, run),
        truth=lambda: latents_of(tokens, patch, height, width),
        what=f"the {height}×{width} latents",
    )


@todo("7.3", guards="squares, as DiTTransformer2DModel makes them")
def test_tokens_become_square_latents(candidate: Any, draw: Draw) -> None:
    """unpatchify puts tokens together as DiTTransformer2DModel does, which knows only squares."""
    patch, channels, side, _ = draw_patches(draw)
    tokens = draw.latents(3, (side // patch) ** 2, patch * patch * channels)
    library = diffusion_transformer(patch, channels, tokens.device)
    zeros = partial(torch.zeros, device=tokens.device)

    def run() -> Any:
        t = zeros(3, dtype=torch.long)
        return library(zeros(3, 1, side, side), timestep=t, class_labels=t).sample

    assert_matches(
        candidate.unpatchify(tokens, patch, side, side),
        library=lambda: run_with(library.proj_out_2, tokens, run),
        truth=lambda: latents_of(tokens, patch, side, side),
        what=f"the {side}×{side} latents",
    )


@todo("7.3", guards="half precision, and a property that needs no reference")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=["float32", "float16"])
def test_the_two_ways_undo_each_other(candidate: Any, draw: Draw, dtype: torch.dtype) -> None:
    """unpatchify(patchify(latents)) is latents again, in their dtype."""
    patch, channels, height, width = draw_patches(draw)
    latents = draw.latents(3, channels, height, width, dtype=dtype)
    tokens = candidate.patchify(latents, patch)
    count = height * width // patch**2
    assert_tensor(
        tokens, shape=(3, count, patch**2 * channels), dtype=dtype, what="the tokens of latents"
    )
    assert_property(
        candidate.unpatchify(tokens, patch, height, width),
        equals=latents.clone,
        what="the latents after both ways",
    )


# 7.4


def normed(hidden: Tensor, eps: float) -> Tensor:
    """LayerNorm without weights, in float64."""
    h = hidden.double()
    spread = h.var(dim=-1, correction=0, keepdim=True)
    return (h - h.mean(dim=-1, keepdim=True)) / (spread + eps).sqrt()


def modulated(hidden: Tensor, embedding: Tensor, weights: dict[str, Tensor]) -> list[Tensor]:
    """Peebles and Xie 2023, section 3.2, in float64: the five results of adaLN-Zero."""
    e = embedding.double()
    six = linear(e / (1 + (-e).exp()), weights, "linear").reshape(len(e), 6, 1, -1).unbind(1)
    first = normed(hidden, 1e-6) * (1 + six[1]) + six[0]
    return [first, *(vector[:, 0] for vector in six[2:])]


CASES = ("usual", "quiet", "as many tokens as samples")


def draw_tokens(draw: Draw, width: int, case: str) -> Tensor:
    """Hidden tokens that are not normalised yet. Next to quiet ones the epsilon shows."""
    batch = draw.choice([2, 3, 4])
    hidden = draw.latents(batch, batch if case == "as many tokens as samples" else 9, width)
    hidden = hidden * draw.uniform(1.5, 3) + draw.uniform(0.5, 2)
    return hidden * (0.01 if case == "quiet" else 1)


def adaln_of_the_library(hidden: Tensor, embedding: Tensor, weights: dict[str, Tensor]) -> Any:
    """diffusers' AdaLayerNormZero, given these weights."""
    library = AdaLayerNormZero(hidden.shape[-1])
    library.load_state_dict(weights)
    return frozen(library, hidden.device)(hidden, emb=embedding)


def assert_modulates(
    answer: Any, place: int, hidden: Tensor, embedding: Tensor, weights: dict[str, Tensor]
) -> None:
    """The result at this place of the five is AdaLayerNormZero's."""
    assert_matches(
        unpack(answer, *MODULATION)[place],
        library=lambda: adaln_of_the_library(hidden, embedding, weights)[place],
        truth=lambda: modulated(hidden, embedding, weights)[place],
        what=MODULATION[place],
    )


@todo("7.4")
@pytest.mark.parametrize("case", CASES)
def test_the_condition_shifts_and_scales_a_norm(candidate: Any, draw: Draw, case: str) -> None:
    """The tokens are normalised and modulated as in AdaLayerNormZero, quiet ones too."""
    width = draw.choice([10, 12, 14])
    hidden = draw_tokens(draw, width, case)
    embedding = draw.latents(len(hidden), width) * 2
    weights = draw_linear(draw, "linear", 6 * width, width)
    answer = candidate.adaln_zero(hidden, embedding, *weights.values())
    assert_modulates(answer, 0, hidden, embedding, weights)


@todo("7.4")
def test_four_vectors_are_handed_on(candidate: Any, draw: Draw) -> None:
    """gate_msa, shift_mlp, scale_mlp and gate_mlp are those of AdaLayerNormZero, in this order."""
    width = draw.choice([10, 12, 14])
    hidden = draw_tokens(draw, width, "usual")
    embedding = draw.latents(len(hidden), width) * 2
    weights = draw_linear(draw, "linear", 6 * width, width)
    answer = candidate.adaln_zero(hidden, embedding, *weights.values())
    for place in range(1, len(MODULATION)):
        assert_modulates(answer, place, hidden, embedding, weights)


# 7.5

LAYERS = {  # of a block: rows and columns in multiples of its width, and how lively it is
    "norm1.linear": (6, 1, 1.0),
    **{f"attn1.{name}": (1, 1, 1.5) for name in ("to_q", "to_k", "to_v", "to_out.0")},
    "ff.net.0.proj": (4, 1, 0.8),
    "ff.net.2": (1, 4, 12.0),
}


@lru_cache
def block(heads: int, size: int, device: torch.device) -> Any:
    """A BasicTransformerBlock as DiT has it. Its weights but the embedding's are given later."""
    with seeded(heads):
        library = BasicTransformerBlock(
            dim=heads * size,
            num_attention_heads=heads,
            attention_head_dim=size,
            norm_type="ada_norm_zero",
            num_embeds_ada_norm=10,
            attention_bias=True,
            activation_fn="gelu-approximate",
            norm_elementwise_affine=False,
        )
    return frozen(library, device)


def under(prefix: str, weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """The weights whose names begin so, without it."""
    return {
        name.removeprefix(prefix): tensor
        for name, tensor in weights.items()
        if name.startswith(prefix)
    }


def through_a_block(
    hidden: Tensor, embedding: Tensor, weights: dict[str, Tensor], heads: int
) -> Tensor:
    """Peebles and Xie 2023, figure 3, in float64."""
    x, gate_msa, shift_mlp, scale_mlp, gate_mlp = modulated(
        hidden, embedding, under("norm1.", weights)
    )
    h = hidden + gate_msa[:, None] * attended(x, x, under("attn1.", weights), heads, None)
    x = normed(h, 1e-5) * (1 + scale_mlp[:, None]) + shift_mlp[:, None]
    u = linear(x, weights, "ff.net.0.proj")
    u = u / 2 * (1 + torch.tanh(math.sqrt(2 / math.pi) * (u + 0.044715 * u**3)))
    return h + gate_mlp[:, None] * linear(u, weights, "ff.net.2")


def draw_block_weights(draw: Draw, width: int, case: str) -> dict[str, Tensor]:
    """Weights of a block. A quiet one hardly opens the gate of its attention."""
    weights: dict[str, Tensor] = {}
    for name, (out, into, gain) in LAYERS.items():
        weights |= draw_linear(draw, name, out * width, into * width, gain=gain)
    weights["ff.net.0.proj.bias"] -= 2  # to where the two forms of GELU differ most
    if case == "quiet":
        for part in ("weight", "bias"):
            weights[f"norm1.linear.{part}"][2 * width : 3 * width] *= 0.001
    return weights


@todo("7.5")
@pytest.mark.parametrize("case", CASES)
def test_a_block_is_basic_transformer_block(candidate: Any, draw: Draw, case: str) -> None:
    """dit_block gives what BasicTransformerBlock gives, quiet hidden states too."""
    heads, size = draw_heads(draw)
    hidden = draw_tokens(draw, heads * size, case)
    weights = draw_block_weights(draw, heads * size, case)
    library = block(heads, size, hidden.device)
    t = draw_timesteps(draw, len(hidden), "whole")
    label = draw.tensor(len(hidden), low=0, high=9.99).long()
    embedding = library.norm1.emb(t, label, hidden_dtype=hidden.dtype)
    answer = candidate.dit_block(hidden, embedding, weights, heads)

    def run() -> Any:
        library.load_state_dict(weights, strict=False)  # all but norm1.emb, which is as it was
        return library(hidden, timestep=t, class_labels=label)

    assert_matches(
        answer,
        library=run,
        truth=lambda: through_a_block(hidden, embedding, weights, heads),
        what="the hidden states after the block",
    )


# 7.6


@lru_cache
def unet(levels: int, layers: int, device: torch.device) -> Any:
    """A tiny UNet2DConditionModel; on several levels its skips have the same shape."""
    with seeded(levels):
        library = UNet2DConditionModel(
            block_out_channels=(8, 12, 12)[:levels],
            layers_per_block=layers,
            down_block_types=("CrossAttnDownBlock2D", "DownBlock2D", "DownBlock2D")[:levels],
            up_block_types=("UpBlock2D", "UpBlock2D", "CrossAttnUpBlock2D")[-levels:],
            cross_attention_dim=6,
            attention_head_dim=2,  # the number of heads
            norm_num_groups=4,
        )
    return frozen(library, device)


def inner_layers(up: Any) -> list[Any]:
    """The layers of an up block between which hidden states pass."""
    return [*up.resnets, *getattr(up, "attentions", [])]


def way_up(library: Any, run: Callable[[], Any]) -> tuple[list[Tensor], list[Tensor], list[Tensor]]:
    """All skips of a run, and for each resnet of the up blocks the hidden states and its input."""
    skips: list[Tensor] = []
    before, inputs, hooks = [], [], []
    latest: dict[str, Tensor] = {}

    def remember(module: Any, given: Any, result: Any) -> None:
        latest["hidden"] = result[0] if isinstance(result, tuple) else result

    def note_skips(module: Any, given: Any, named: dict[str, Any]) -> None:
        skips[:0] = named["res_hidden_states_tuple"]  # the first block takes the last ones

    def note_input(module: Any, given: Any) -> None:
        before.append(latest["hidden"])
        inputs.append(given[0])

    hooks.append(library.mid_block.register_forward_hook(remember))
    for up in library.up_blocks:
        hooks.append(up.register_forward_pre_hook(note_skips, with_kwargs=True))
        hooks += [resnet.register_forward_pre_hook(note_input) for resnet in up.resnets]
        hooks += [layer.register_forward_hook(remember) for layer in (*inner_layers(up), up)]
    try:
        run()
    finally:
        for hook in hooks:
            hook.remove()
    return skips, before, inputs


def draw_way_up(draw: Draw, levels: int, layers: int) -> tuple[Any, Callable[[], Any]]:
    """A UNet and a run of it on fresh latents."""
    library = unet(levels, layers, draw.device)
    latents, prompt = draw.latents(3, 4, 8, 12), draw.latents(3, 5, 6)
    t = draw_timesteps(draw, 3, "whole")
    return library, lambda: library(latents, t, prompt)


SIZES = {"two levels": (2, 1), "three levels": (3, 2)}


def assert_joined(
    answer: Any, number: int, hidden: Tensor, skip: Tensor, library: Callable[[], list[Tensor]]
) -> None:
    """The answer is the input of the resnet of this number."""
    assert_matches(
        answer,
        library=lambda: library()[number],
        truth=lambda: torch.cat([hidden, skip], dim=1).double(),
        what=f"the input of resnet {number} of the way up",
    )


@todo("7.6")
@pytest.mark.parametrize("size", SIZES)
def test_every_resnet_of_the_way_up_gets_the_latest_skip(
    candidate: Any, draw: Draw, size: str
) -> None:
    """The input is the one that each resnet of each up block of UNet2DConditionModel gets."""
    library, run = draw_way_up(draw, *SIZES[size])
    skips, before, _ = way_up(library, run)
    again = cache(lambda: way_up(library, run)[2])
    for number, hidden in enumerate(before):
        left = tuple(skips[: len(skips) - number])
        answer, _ = unpack(candidate.unet_up_input(hidden, left), "input", "skips")
        assert_joined(answer, number, hidden, left[-1], again)


def shapes(tensors: Any) -> Any:
    """The shapes of a row of tensors; anything else as it is."""
    plain = isinstance(tensors, list | tuple) and all(isinstance(x, Tensor) for x in tensors)
    return [tuple(tensor.shape) for tensor in tensors] if plain else tensors


def assert_remain(remaining: Any, skips: tuple[Tensor, ...], number: int) -> None:
    """These skips remain after the resnet of this number: so many, in this order, unchanged."""
    what = f"the skips that remain after resnet {number}"
    assert_equals(shapes(remaining), value=shapes(skips), what=f"the shapes of {what}")
    for place, skip in enumerate(skips):
        assert_property(
            remaining[place], equals=partial(torch.clone, skip), what=f"{what}, number {place}"
        )


@todo("7.6")
@pytest.mark.parametrize("size", SIZES)
def test_a_skip_is_used_once(candidate: Any, draw: Draw, size: str) -> None:
    """What remains are the other skips, in the same order, until none is left."""
    library, run = draw_way_up(draw, *SIZES[size])
    skips, before, _ = way_up(library, run)
    for number, hidden in enumerate(before):
        left = tuple(skips[: len(skips) - number])
        _, remaining = unpack(candidate.unet_up_input(hidden, left), "input", "skips")
        assert_remain(remaining, left[:-1], number)


# 7.7


@lru_cache
def unet_of_sdxl(dim: int, device: torch.device) -> Any:
    """A tiny UNet2DConditionModel that is told sizes, as Stable Diffusion XL's is."""
    library = UNet2DConditionModel(
        block_out_channels=(4,),
        layers_per_block=1,
        down_block_types=("DownBlock2D",),
        up_block_types=("UpBlock2D",),
        mid_block_type=None,
        norm_num_groups=2,
        addition_embed_type="text_time",
        addition_time_embed_dim=dim,
        projection_class_embeddings_input_dim=6 * dim,
    )
    return frozen(library, device)


def draw_sizes(draw: Draw) -> tuple[tuple[int, int], tuple[int, int], tuple[int, int]]:
    """Original size, crop and target size: six numbers of which no two are near each other."""
    original = round(draw.uniform(700, 800)), round(draw.uniform(1300, 1400))
    crop = round(draw.uniform(10, 60)), round(draw.uniform(150, 220))
    target = round(draw.uniform(500, 600)), round(draw.uniform(1000, 1100))
    if draw.choice([True, False]):  # higher than wide
        original, crop, target = original[::-1], crop[::-1], target[::-1]
    return original, crop, target


@todo("7.7")
def test_six_numbers_tell_the_size(candidate: Any, draw: Draw) -> None:
    """time_ids are those of StableDiffusionXLPipeline._get_add_time_ids."""
    original, crop, target = draw_sizes(draw)
    dim = 2 * draw.integer(20, 40)
    answer = candidate.size_conditioning(original, crop, target, dim)
    add_time_ids = library_function(
        "pipelines/stable_diffusion_xl/pipeline_stable_diffusion_xl.py",
        "StableDiffusionXLPipeline._get_add_time_ids",
    )
    pipe = SimpleNamespace(unet=unet_of_sdxl(dim, torch.device("cpu")))
    assert_matches(
        on_the_cpu(unpack(answer, "time_ids", "embedding")[0], 6, "time_ids"),
        library=lambda: add_time_ids(pipe, original, crop, target, torch.float32, 0),
        truth=lambda: [[*original, *crop, *target]],
        what="time_ids",
    )


def on_the_cpu(answer: Any, width: int, what: str) -> Tensor:
    """There is no tensor among the arguments, so the device is the learner's choice."""
    assert_tensor(answer, shape=(1, width), dtype=torch.float32, what=what)
    there: Tensor = answer.cpu()
    return there


@todo("7.7")
def test_each_number_is_embedded_like_a_timestep(candidate: Any, draw: Draw) -> None:
    """The embedding is what the UNet's add_time_proj makes of the six numbers, side by side."""
    original, crop, target = draw_sizes(draw)
    dim = 2 * draw.integer(20, 40)
    answer = candidate.size_conditioning(original, crop, target, dim)
    numbers = torch.tensor([*original, *crop, *target])
    library = unet_of_sdxl(dim, torch.device("cpu"))
    assert_matches(
        on_the_cpu(unpack(answer, "time_ids", "embedding")[1], 6 * dim, "the embedding"),
        library=lambda: library.add_time_proj(numbers.float()).reshape(1, -1),
        truth=lambda: sinusoids(numbers, dim, True, 0).reshape(1, -1),
        what="the embedding of the six numbers",
        agreement_ulps=ANGLE_ULPS,
    )
