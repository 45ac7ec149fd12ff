"""Lab 07: wrong answers that people really give, each the shortest code beside its sentence."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from infralens.examiner import misconception

PAGE = "handbook/backbone.md"
TIMESTEP = f"{PAGE}#timestep-embedding"
ATTENTION = f"{PAGE}#cross-attention"
PATCHES = f"{PAGE}#patches"
ADALN = f"{PAGE}#adaln-zero"
BLOCK = f"{PAGE}#a-dit-block"
SKIPS = f"{PAGE}#skip-connections"
SIZE = f"{PAGE}#size-conditioning"

Weights = dict[str, Tensor]
Five = tuple[Tensor, Tensor, Tensor, Tensor, Tensor]
Pair = tuple[int, int]


# Compact twins of the right answers, for the wrong ones below to differ from in one place.


def angles(t: Tensor, half: int, divisor: float) -> Tensor:
    steps = torch.arange(half, device=t.device) / divisor
    return t.to(torch.float32).unsqueeze(1) * 10000.0**-steps


def halves(first: Tensor, second: Tensor, dim: int) -> Tensor:
    both = torch.cat((first, second), 1)
    return F.pad(both, (0, dim - both.shape[1]))


def waves(t: Tensor, dim: int, cosines_first: bool, divisor: float) -> Tensor:
    a = angles(t, dim // 2, divisor)
    return halves(a.cos(), a.sin(), dim) if cosines_first else halves(a.sin(), a.cos(), dim)


def layer(x: Tensor, weights: Weights, name: str) -> Tensor:
    return F.linear(x, weights[name + ".weight"], weights.get(name + ".bias"))


def three(hidden: Tensor, context: Tensor | None, weights: Weights) -> list[Tensor]:
    """Queries, keys and values, heads not split yet."""
    seen = hidden if context is None else context
    return [
        layer(hidden, weights, "to_q"),
        layer(seen, weights, "to_k"),
        layer(seen, weights, "to_v"),
    ]


def split(x: Tensor, heads: int) -> Tensor:
    return x.view(x.shape[0], x.shape[1], heads, -1).permute(0, 2, 1, 3)


def likeness(q: Tensor, k: Tensor) -> Tensor:
    return q @ k.mT / math.sqrt(q.shape[-1])


def hide(scores: Tensor, mask: Tensor | None) -> Tensor:
    return scores if mask is None else scores - 1e9 * (~mask).to(scores.dtype)[:, None, None]


def finish(shares: Tensor, v: Tensor, weights: Weights) -> Tensor:
    return layer((shares @ v).permute(0, 2, 1, 3).flatten(start_dim=2), weights, "to_out.0")


def attend(
    hidden: Tensor, context: Tensor | None, weights: Weights, heads: int, mask: Tensor | None
) -> Tensor:
    q, k, v = (split(x, heads) for x in three(hidden, context, weights))
    return finish(hide(likeness(q, k), mask).softmax(-1), v, weights)


def cut(latents: Tensor, patch: int) -> Tensor:
    """(B, C, rows, p, columns, q)."""
    batch, c, h, w = latents.shape
    return latents.view(batch, c, h // patch, patch, w // patch, patch)


def row(axes: Tensor) -> Tensor:
    """Six axes, three of them a place, as tokens."""
    return axes.flatten(start_dim=3).flatten(1, 2)


def normed(x: Tensor, eps: float, shift: Tensor, scale: Tensor) -> Tensor:
    plain = F.layer_norm(x, (x.shape[-1],), eps=eps)
    return plain * (scale + 1) + shift


def vectors(embedding: Tensor, weight: Tensor, bias: Tensor) -> list[Tensor]:
    """The six, each (B, 1, D)."""
    return list(F.linear(F.silu(embedding), weight, bias)[:, None].chunk(6, dim=-1))


def handed_on(six: Sequence[Tensor]) -> tuple[Tensor, ...]:
    return tuple(vector[:, 0] for vector in six[2:])


def six_of(embedding: Tensor, weights: Weights) -> list[Tensor]:
    return vectors(embedding, weights["norm1.linear.weight"], weights["norm1.linear.bias"])


def looked_around(x: Tensor, weights: Weights, heads: int) -> Tensor:
    inner = {name[6:]: tensor for name, tensor in weights.items() if name[:6] == "attn1."}
    return attend(x, None, inner, heads, None)


def thought(x: Tensor, weights: Weights, form: str = "tanh") -> Tensor:
    return layer(F.gelu(layer(x, weights, "ff.net.0.proj"), approximate=form), weights, "ff.net.2")


def with_attention(x: Tensor, six: Sequence[Tensor], weights: Weights, heads: int) -> Tensor:
    return x + six[2] * looked_around(normed(x, 1e-6, six[0], six[1]), weights, heads)


def with_mlp(x: Tensor, six: Sequence[Tensor], weights: Weights) -> Tensor:
    return x + six[5] * thought(normed(x, 1e-5, six[3], six[4]), weights)


def embedded(numbers: Sequence[float], dim: int) -> Tensor:
    return waves(torch.tensor(numbers), dim, True, dim // 2).view(1, -1)


def sizes(numbers: Sequence[float], dim: int) -> tuple[Tensor, Tensor]:
    return torch.tensor([numbers]).to(torch.float32), embedded(numbers, dim)


# 7.1


@misconception("7.1", "halves-swapped", replaces="timestep_embedding", reads=TIMESTEP)
def halves_swapped(t: Tensor, dim: int, flip: bool, shift: float) -> Tensor:
    """The sines and cosines are the wrong way round. With flip_sin_to_cos, as Stable Diffusion has
    it, the cosines come first; without it the sines do. Both kinds of model exist."""
    return waves(t, dim, not flip, dim // 2 - shift)


@misconception("7.1", "half-minus-one-always", replaces="timestep_embedding", reads=TIMESTEP)
def half_minus_one(t: Tensor, dim: int, flip: bool, shift: float) -> Tensor:
    """The exponent was divided by half − 1 whatever the shift. That is the original DDPM; Stable
    Diffusion has downscale_freq_shift 0 and divides by half."""
    return waves(t, dim, flip, dim // 2 - 1)


@misconception("7.1", "frequency-shift-ignored", replaces="timestep_embedding", reads=TIMESTEP)
def shift_ignored(t: Tensor, dim: int, flip: bool, shift: float) -> Tensor:
    """The exponent was divided by half, whatever downscale_freq_shift says. Subtract it from half:
    it decides how low the lowest frequency is."""
    return waves(t, dim, flip, dim // 2)


@misconception("7.1", "exponent-over-dim", replaces="timestep_embedding", reads=TIMESTEP)
def exponent_over_dim(t: Tensor, dim: int, flip: bool, shift: float) -> Tensor:
    """The exponent was divided by dim. There are only dim / 2 frequencies, so it must be divided by
    half of it, or the frequencies stop at 1/100."""
    return waves(t, dim, flip, dim)


@misconception("7.1", "sines-and-cosines-alternate", replaces="timestep_embedding", reads=TIMESTEP)
def alternating(t: Tensor, dim: int, flip: bool, shift: float) -> Tensor:
    """Sines and cosines alternate. That is how position embeddings are often written; here all of
    one kind come first, then all of the other."""
    a = angles(t, dim // 2, dim // 2 - shift)
    pair = (a.cos(), a.sin()) if flip else (a.sin(), a.cos())
    return F.pad(torch.stack(pair, 2).flatten(1), (0, dim % 2))


@misconception("7.1", "fraction-dropped", replaces="timestep_embedding", reads=TIMESTEP)
def fraction_dropped(t: Tensor, dim: int, flip: bool, shift: float) -> Tensor:
    """The timestep was made a whole number. Schedulers ask at fractions too, and the embedding is a
    function of any number."""
    return waves(t.long(), dim, flip, dim // 2 - shift)


@misconception("7.1", "odd-dimension-not-padded", replaces="timestep_embedding", reads=TIMESTEP)
def not_padded(t: Tensor, dim: int, flip: bool, shift: float) -> Tensor:
    """An odd dim came out one short. Sines and cosines come in pairs; the column left over is
    zeros, at the end."""
    return waves(t, dim - dim % 2, flip, dim // 2 - shift)


@misconception("7.1", "angle-in-turns", replaces="timestep_embedding", reads=TIMESTEP)
def in_turns(t: Tensor, dim: int, flip: bool, shift: float) -> Tensor:
    """The angle was multiplied by 2π. Fourier features do that; here the timestep times the
    frequency is the angle, in radians."""
    return waves(t * 2 * torch.pi, dim, flip, dim // 2 - shift)


@misconception("7.1", "timestep-divided-by-1000", replaces="timestep_embedding", reads=TIMESTEP)
def divided_by_1000(t: Tensor, dim: int, flip: bool, shift: float) -> Tensor:
    """The timestep was divided by 1000 first. It goes in as it is, 0 to 1000: even flow matching
    models multiply their σ by 1000 for this."""
    return waves(t / 1000, dim, flip, dim // 2 - shift)


@misconception("7.1", "timestep-in-half-precision", replaces="timestep_embedding", reads=TIMESTEP)
def in_half_precision(t: Tensor, dim: int, flip: bool, shift: float) -> Tensor:
    """The timestep went through bfloat16, which knows every fourth number only near 1000. Embed it
    in float32 and cast the embedding, if at all."""
    return waves(t.to(torch.bfloat16), dim, flip, dim // 2 - shift)


@misconception("7.1", "frequencies-from-one", replaces="timestep_embedding", reads=TIMESTEP)
def from_one(t: Tensor, dim: int, flip: bool, shift: float) -> Tensor:
    """The frequencies were counted from i = 1. They begin at i = 0: the first one is 1, and its
    angle is the timestep itself."""
    half = dim // 2
    steps = torch.arange(1, half + 1, device=t.device) / (half - shift)
    a = t.to(torch.float32).unsqueeze(1) * 10000.0**-steps
    return halves(a.cos(), a.sin(), dim) if flip else halves(a.sin(), a.cos(), dim)


# 7.2


@misconception("7.2", "softmax-over-queries", replaces="cross_attention", reads=ATTENTION)
def softmax_over_queries(h: Tensor, c: Tensor | None, w: Weights, heads: int, m: Any) -> Tensor:
    """The softmax runs over the hidden tokens. Each hidden token shares itself out among the
    context's tokens, so the shares of a row, along the last axis, add up to 1."""
    q, k, v = (split(x, heads) for x in three(h, c, w))
    return finish(hide(likeness(q, k), m).softmax(-2), v, w)


@misconception("7.2", "heads-not-split", replaces="cross_attention", reads=ATTENTION)
def not_split(h: Tensor, c: Tensor | None, w: Weights, heads: int, m: Any) -> Tensor:
    """The heads were not split: there was one softmax over the whole width. Each head compares its
    own channels and has a softmax of its own."""
    return attend(h, c, w, 1, m)


@misconception("7.2", "heads-read-as-head-size", replaces="cross_attention", reads=ATTENTION)
def heads_as_size(h: Tensor, c: Tensor | None, w: Weights, heads: int, m: Any) -> Tensor:
    """`heads` was taken for the size of a head. It is how many there are; UNet2DConditionModel's
    config even calls the number attention_head_dim."""
    return attend(h, c, w, w["to_q.weight"].shape[0] // heads, m)


@misconception("7.2", "heads-interleaved", replaces="cross_attention", reads=ATTENTION)
def interleaved(h: Tensor, c: Tensor | None, w: Weights, heads: int, m: Any) -> Tensor:
    """Every heads-th channel was given to one head. A head's channels lie next to each other: the
    width splits into (heads, head size), not (head size, heads)."""
    q, k, v = (x.view(len(x), x.shape[1], -1, heads).permute(0, 3, 1, 2) for x in three(h, c, w))
    gathered = hide(likeness(q, k), m).softmax(-1) @ v
    return layer(gathered.permute(0, 2, 3, 1).flatten(2), w, "to_out.0")


@misconception("7.2", "channels-dealt-out-to-heads", replaces="cross_attention", reads=ATTENTION)
def dealt_out(h: Tensor, c: Tensor | None, w: Weights, heads: int, m: Any) -> Tensor:
    """The channels were dealt out to the heads one by one, and joined head by head. A head's
    channels lie next to each other: split the width into (heads, head size)."""
    q, k, v = (x.view(len(x), x.shape[1], -1, heads).permute(0, 3, 1, 2) for x in three(h, c, w))
    return finish(hide(likeness(q, k), m).softmax(-1), v, w)


@misconception("7.2", "keys-and-values-from-hidden", replaces="cross_attention", reads=ATTENTION)
def from_hidden(h: Tensor, c: Tensor | None, w: Weights, heads: int, m: Any) -> Tensor:
    """Keys and values were computed from the hidden states, so the prompt changes nothing. They
    come from the context; only the queries are the image's."""
    return attend(h, None, w, heads, m)


@misconception("7.2", "scaled-by-the-whole-width", replaces="cross_attention", reads=ATTENTION)
def whole_width(h: Tensor, c: Tensor | None, w: Weights, heads: int, m: Any) -> Tensor:
    """The scores were divided by the root of the whole width. A score adds up the products of one
    head, so it is the root of the head's size that brings it back to size 1."""
    q, k, v = (split(x, heads) for x in three(h, c, w))
    return finish(hide(likeness(q, k) / heads**0.5, m).softmax(-1), v, w)


@misconception("7.2", "not-scaled", replaces="cross_attention", reads=ATTENTION)
def not_scaled(h: Tensor, c: Tensor | None, w: Weights, heads: int, m: Any) -> Tensor:
    """The scores were not divided by √(head size). They then grow with the size of a head, and the
    softmax picks one token instead of mixing."""
    q, k, v = (split(x, heads) for x in three(h, c, w))
    return finish(hide(q @ k.mT, m).softmax(-1), v, w)


@misconception("7.2", "heads-joined-without-transpose", replaces="cross_attention", reads=ATTENTION)
def joined_wrongly(h: Tensor, c: Tensor | None, w: Weights, heads: int, m: Any) -> Tensor:
    """The heads were joined before their axis was moved back behind the tokens. (B, heads, N, size)
    must become (B, N, heads, size) first; a reshape alone mixes tokens."""
    q, k, v = (split(x, heads) for x in three(h, c, w))
    gathered = hide(likeness(q, k), m).softmax(-1) @ v
    return layer(gathered.reshape(len(h), h.shape[1], -1), w, "to_out.0")


@misconception("7.2", "projection-biases-forgotten", replaces="cross_attention", reads=ATTENTION)
def biases_forgotten(h: Tensor, c: Tensor | None, w: Weights, heads: int, m: Any) -> Tensor:
    """The biases of to_q, to_k and to_v were left out. Stable Diffusion's attention has none, a
    DiT's has; use them when they are among the weights."""
    names = ("to_q.bias", "to_k.bias", "to_v.bias")
    return attend(h, c, {name: x for name, x in w.items() if name not in names}, heads, m)


@misconception("7.2", "output-bias-forgotten", replaces="cross_attention", reads=ATTENTION)
def output_bias_forgotten(h: Tensor, c: Tensor | None, w: Weights, heads: int, m: Any) -> Tensor:
    """The bias of to_out.0 was left out."""
    return attend(h, c, {name: x for name, x in w.items() if name != "to_out.0.bias"}, heads, m)


@misconception("7.2", "output-projection-forgotten", replaces="cross_attention", reads=ATTENTION)
def output_forgotten(h: Tensor, c: Tensor | None, w: Weights, heads: int, m: Any) -> Tensor:
    """The heads' results were returned as they are. to_out.0 mixes them and brings them back to the
    width of the hidden states."""
    q, k, v = (split(x, heads) for x in three(h, c, w))
    return (hide(likeness(q, k), m).softmax(-1) @ v).permute(0, 2, 1, 3).flatten(start_dim=2)


@misconception("7.2", "mask-upside-down", replaces="cross_attention", reads=ATTENTION)
def upside_down(h: Tensor, c: Tensor | None, w: Weights, heads: int, m: Any) -> Tensor:
    """The mask hid what it should keep. True means that the token may be seen."""
    return attend(h, c, w, heads, None if m is None else ~m)


@misconception("7.2", "mask-ignored", replaces="cross_attention", reads=ATTENTION)
def mask_ignored(h: Tensor, c: Tensor | None, w: Weights, heads: int, m: Any) -> Tensor:
    """The mask was not used. Padding then gets a share of every token's attention."""
    return attend(h, c, w, heads, None)


@misconception("7.2", "mask-added-as-numbers", replaces="cross_attention", reads=ATTENTION)
def mask_added(h: Tensor, c: Tensor | None, w: Weights, heads: int, m: Any) -> Tensor:
    """The mask was added to the scores as 0 and 1. What is to vanish from a softmax needs a score
    of −∞, or a very negative one like the library's −10000."""
    q, k, v = (split(x, heads) for x in three(h, c, w))
    scores = likeness(q, k)
    return finish((scores if m is None else scores + m[:, None, None]).softmax(-1), v, w)


@misconception("7.2", "mask-after-the-softmax", replaces="cross_attention", reads=ATTENTION)
def mask_after(h: Tensor, c: Tensor | None, w: Weights, heads: int, m: Any) -> Tensor:
    """The shares of masked tokens were set to 0 after the softmax. The shares left then add up to
    less than 1; hide the scores before the softmax instead."""
    q, k, v = (split(x, heads) for x in three(h, c, w))
    shares = likeness(q, k).softmax(-1)
    return finish(shares if m is None else shares * m[:, None, None], v, w)


@misconception("7.2", "mask-of-another-sample", replaces="cross_attention", reads=ATTENTION)
def mask_of_another(h: Tensor, c: Tensor | None, w: Weights, heads: int, m: Any) -> Tensor:
    """The mask was repeated as [a, b, a, b], but batch and heads flattened together run [a, a, b,
    b]: all heads of one sample, then the next sample's. Repeat each row heads times."""
    if m is None:
        return attend(h, c, w, heads, m)
    q, k, v = (split(x, heads) for x in three(h, c, w))
    repeated = m.repeat(heads, 1).view(len(m), heads, 1, -1)
    scores = likeness(q, k).masked_fill(~repeated, float("-inf"))
    return finish(scores.softmax(-1), v, w)


@misconception("7.2", "mask-lined-up-with-queries", replaces="cross_attention", reads=ATTENTION)
def mask_on_queries(h: Tensor, c: Tensor | None, w: Weights, heads: int, m: Any) -> Tensor:
    """The (B, M) mask was laid on the last two axes, which are (N, M): sample b's row then masks
    query b of every sample. Give it two axes for heads and queries: mask[:, None, None, :]."""
    q, k, v = (split(x, heads) for x in three(h, c, w))
    scores = likeness(q, k)
    return finish((scores if m is None else scores.masked_fill(~m, -1e9)).softmax(-1), v, w)


# 7.3


@misconception("7.3", "patch-channels-first", replaces="patchify", reads=PATCHES)
def channels_first(latents: Tensor, patch: int) -> Tensor:
    """A token's numbers came in the order (c, p, q), as Flux packs them. A DiT's last layer gives,
    and this lab wants, (p, q, c): the channels of one latent next to each other."""
    return row(cut(latents, patch).permute(0, 2, 4, 1, 3, 5))


@misconception("7.3", "patch-columns-first", replaces="patchify", reads=PATCHES)
def columns_first(latents: Tensor, patch: int) -> Tensor:
    """Inside a patch the columns were walked before the rows. p, the row, is the slower one."""
    return row(cut(latents, patch).permute(0, 2, 4, 5, 3, 1))


@misconception("7.3", "patches-down-the-columns", replaces="patchify", reads=PATCHES)
def down_the_columns(latents: Tensor, patch: int) -> Tensor:
    """The patches were numbered down the columns. They go along the rows, as one reads."""
    return row(cut(latents, patch).permute(0, 4, 2, 3, 5, 1))


@misconception("7.3", "cut-without-moving-axes", replaces="patchify", reads=PATCHES)
def only_reshaped(latents: Tensor, patch: int) -> Tensor:
    """The latents were only reshaped. A reshape keeps the order of the numbers, so a token holds a
    strip of one row; move the axes before you flatten them."""
    batch, c, h, w = latents.shape
    return latents.view(batch, h * w // patch**2, patch**2 * c)


def glued(axes: Tensor, height: int, width: int) -> Tensor:
    """(B, C, rows, p, columns, q), glued."""
    return axes.reshape(axes.shape[0], axes.shape[1], height, width)


def opened(tokens: Tensor, patch: int, rows: int) -> Tensor:
    """(B, rows, columns, p, q, c)."""
    return tokens.reshape(tokens.shape[0], rows, tokens.shape[1] // rows, patch, patch, -1)


@misconception("7.3", "latents-channels-first", replaces="unpatchify", reads=PATCHES)
def read_channels_first(tokens: Tensor, patch: int, height: int, width: int) -> Tensor:
    """A token's numbers were read in the order (c, p, q). Here the channel is the fastest of the
    three: (p, q, c)."""
    rows = height // patch
    axes = tokens.reshape(len(tokens), rows, width // patch, -1, patch, patch)
    return glued(axes.permute(0, 3, 1, 4, 2, 5), height, width)


@misconception("7.3", "patches-transposed", replaces="unpatchify", reads=PATCHES)
def transposed(tokens: Tensor, patch: int, height: int, width: int) -> Tensor:
    """Each patch came back with rows and columns swapped: p belongs beside the rows of patches, q
    beside the columns, nhwpqc → nchpwq."""
    axes = opened(tokens, patch, height // patch)
    return glued(axes.permute(0, 5, 1, 4, 2, 3), height, width)


@misconception("7.3", "height-and-width-swapped", replaces="unpatchify", reads=PATCHES)
def sides_swapped(tokens: Tensor, patch: int, height: int, width: int) -> Tensor:
    """Rows and columns of patches were swapped. Tokens run along the rows, and a row has width /
    patch of them. On a square nothing shows it."""
    axes = opened(tokens, patch, width // patch)
    return glued(axes.permute(0, 5, 1, 3, 2, 4), height, width)


@misconception("7.3", "square-assumed", replaces="unpatchify", reads=PATCHES)
def square_assumed(tokens: Tensor, patch: int, height: int, width: int) -> Tensor:
    """The latents were taken for a square: rows = √tokens. DiTTransformer2DModel really does this;
    use the height and width that you are given."""
    side = int(tokens.shape[1] ** 0.5)
    axes = tokens.reshape(-1, side, side, patch, patch, tokens.shape[-1] // patch**2)
    return glued(axes.permute(0, 5, 1, 3, 2, 4), side * patch, side * patch)


@misconception("7.3", "glued-without-moving-axes", replaces="unpatchify", reads=PATCHES)
def only_reshaped_back(tokens: Tensor, patch: int, height: int, width: int) -> Tensor:
    """The tokens were only reshaped. The shape is right and every number is in another place; move
    the axes to (B, C, rows, p, columns, q) before you flatten them."""
    return tokens.reshape(len(tokens), -1, height, width)


# 7.4


@misconception("7.4", "shift-and-scale-swapped", replaces="adaln_zero", reads=ADALN)
def shift_scale_swapped(hidden: Tensor, embedding: Tensor, weight: Tensor, bias: Tensor) -> Any:
    """Shift and scale changed places. AdaLayerNormZero gives the shift first;
    AdaLayerNormContinuous, in the same file of diffusers, the scale."""
    six = vectors(embedding, weight, bias)
    return normed(hidden, 1e-6, six[1], six[0]), *handed_on(six)


@misconception("7.4", "one-plus-forgotten", replaces="adaln_zero", reads=ADALN)
def one_plus_forgotten(hidden: Tensor, embedding: Tensor, weight: Tensor, bias: Tensor) -> Any:
    """The tokens were multiplied by the scale, not by 1 + scale. A layer that starts at zero, as
    this one does, would then erase its input."""
    six = vectors(embedding, weight, bias)
    return normed(hidden, 1e-6, six[0], six[1] - 1), *handed_on(six)


@misconception("7.4", "silu-forgotten", replaces="adaln_zero", reads=ADALN)
def silu_forgotten(hidden: Tensor, embedding: Tensor, weight: Tensor, bias: Tensor) -> Any:
    """The linear layer was given the embedding itself. SiLU comes before it."""
    six = list(F.linear(embedding, weight, bias)[:, None].chunk(6, dim=-1))
    return normed(hidden, 1e-6, six[0], six[1]), *handed_on(six)


@misconception("7.4", "silu-after-the-linear", replaces="adaln_zero", reads=ADALN)
def silu_after(hidden: Tensor, embedding: Tensor, weight: Tensor, bias: Tensor) -> Any:
    """SiLU came after the linear layer. It comes before; the six vectors may have any sign."""
    six = list(F.silu(F.linear(embedding, weight, bias))[:, None].chunk(6, dim=-1))
    return normed(hidden, 1e-6, six[0], six[1]), *handed_on(six)


@misconception("7.4", "not-normalised", replaces="adaln_zero", reads=ADALN)
def not_normalised(hidden: Tensor, embedding: Tensor, weight: Tensor, bias: Tensor) -> Any:
    """The tokens were shifted and scaled, but not normalised first."""
    six = vectors(embedding, weight, bias)
    return hidden * (1 + six[1]) + six[0], *handed_on(six)


@misconception("7.4", "epsilon-of-pytorch", replaces="adaln_zero", reads=ADALN)
def default_epsilon(hidden: Tensor, embedding: Tensor, weight: Tensor, bias: Tensor) -> Any:
    """The norm added 1e-5, PyTorch's default. This one adds 1e-6, which shows when the tokens are
    small."""
    six = vectors(embedding, weight, bias)
    return normed(hidden, 1e-5, six[0], six[1]), *handed_on(six)


@misconception("7.4", "norm-over-the-tokens", replaces="adaln_zero", reads=ADALN)
def over_tokens(hidden: Tensor, embedding: Tensor, weight: Tensor, bias: Tensor) -> Any:
    """Mean and deviation were taken over the tokens. A layer norm takes them over the channels of
    one token; the tokens do not know of each other here."""
    six = vectors(embedding, weight, bias)
    plain = F.layer_norm(hidden.mT, (hidden.shape[1],), eps=1e-6).mT
    return plain * (1 + six[1]) + six[0], *handed_on(six)


@misconception("7.4", "deviation-of-a-sample", replaces="adaln_zero", reads=ADALN)
def sample_deviation(hidden: Tensor, embedding: Tensor, weight: Tensor, bias: Tensor) -> Any:
    """The variance was divided by D − 1, as tensor.var does by default. A layer norm divides by D:
    correction=0."""
    six = vectors(embedding, weight, bias)
    spread = hidden.var(-1, keepdim=True)
    plain = (hidden - hidden.mean(-1, keepdim=True)) * (spread + 1e-6).rsqrt()
    return plain * (1 + six[1]) + six[0], *handed_on(six)


@misconception("7.4", "the-mlps-vectors-used", replaces="adaln_zero", reads=ADALN)
def other_half(hidden: Tensor, embedding: Tensor, weight: Tensor, bias: Tensor) -> Any:
    """The tokens were modulated by the MLP's shift and scale. The first three of the six belong to
    the attention: shift, scale, gate; the last three to the MLP."""
    six = vectors(embedding, weight, bias)
    return normed(hidden, 1e-6, six[3], six[4]), *handed_on(six)


@misconception("7.4", "six-vectors-interleaved", replaces="adaln_zero", reads=ADALN)
def six_interleaved(hidden: Tensor, embedding: Tensor, weight: Tensor, bias: Tensor) -> Any:
    """The 6·D numbers were split as (D, 6). They are six vectors one after the other: chunk(6)."""
    flat = F.linear(F.silu(embedding), weight, bias)
    six = list(flat.view(len(flat), 1, -1, 6).unbind(-1))
    return normed(hidden, 1e-6, six[0], six[1]), *handed_on(six)


@misconception("7.4", "condition-lined-up-with-tokens", replaces="adaln_zero", reads=ADALN)
def without_an_axis(hidden: Tensor, embedding: Tensor, weight: Tensor, bias: Tensor) -> Any:
    """The (B, D) vectors were laid on the last two axes of (B, N, D), which are token and channel.
    They need an axis for the tokens: scale[:, None]. With B = N nothing complains."""
    six = [vector[:, 0] for vector in vectors(embedding, weight, bias)]
    return normed(hidden, 1e-6, six[0], six[1]), *six[2:]


@misconception("7.4", "mlp-scale-before-shift", replaces="adaln_zero", reads=ADALN)
def scale_before_shift(hidden: Tensor, embedding: Tensor, weight: Tensor, bias: Tensor) -> Any:
    """Of the MLP's vectors the scale was returned before the shift. The order is shift, scale,
    gate, both times."""
    six = vectors(embedding, weight, bias)
    others = handed_on(six)
    return normed(hidden, 1e-6, six[0], six[1]), others[0], others[2], others[1], others[3]


@misconception("7.4", "gates-exchanged", replaces="adaln_zero", reads=ADALN)
def gates_together(hidden: Tensor, embedding: Tensor, weight: Tensor, bias: Tensor) -> Any:
    """The two gates changed places: the third of the six is the attention's, the last the MLP's."""
    six = vectors(embedding, weight, bias)
    others = handed_on(six)
    return normed(hidden, 1e-6, six[0], six[1]), others[3], others[1], others[2], others[0]


# 7.5


@misconception("7.5", "attention-gate-forgotten", replaces="dit_block", reads=BLOCK)
def no_attention_gate(hidden: Tensor, embedding: Tensor, weights: Weights, heads: int) -> Tensor:
    """The attention's result was added without its gate. The gates are the Zero in adaLN-Zero: at
    the start of training they are 0 and the block is the identity."""
    six = six_of(embedding, weights)
    six[2] = torch.ones_like(six[2])
    return with_mlp(with_attention(hidden, six, weights, heads), six, weights)


@misconception("7.5", "mlp-gate-forgotten", replaces="dit_block", reads=BLOCK)
def no_mlp_gate(hidden: Tensor, embedding: Tensor, weights: Weights, heads: int) -> Tensor:
    """The MLP's result was added without its gate."""
    six = six_of(embedding, weights)
    six[5] = torch.ones_like(six[5])
    return with_mlp(with_attention(hidden, six, weights, heads), six, weights)


@misconception("7.5", "gates-swapped", replaces="dit_block", reads=BLOCK)
def gates_swapped(hidden: Tensor, embedding: Tensor, weights: Weights, heads: int) -> Tensor:
    """The gates changed places: gate_msa is the attention's, gate_mlp the MLP's."""
    six = six_of(embedding, weights)
    six[2], six[5] = six[5], six[2]
    return with_mlp(with_attention(hidden, six, weights, heads), six, weights)


@misconception("7.5", "residual-not-added", replaces="dit_block", reads=BLOCK)
def no_residual(hidden: Tensor, embedding: Tensor, weights: Weights, heads: int) -> Tensor:
    """The attention's result replaced the hidden states. Both branches are added to what they
    started from."""
    six = six_of(embedding, weights)
    return with_mlp(with_attention(hidden, six, weights, heads) - hidden, six, weights)


@misconception("7.5", "branches-side-by-side", replaces="dit_block", reads=BLOCK)
def side_by_side(hidden: Tensor, embedding: Tensor, weights: Weights, heads: int) -> Tensor:
    """The MLP started from the hidden states that the attention started from. It comes second: its
    norm reads what the attention left."""
    six = six_of(embedding, weights)
    return with_attention(hidden, six, weights, heads) + with_mlp(hidden, six, weights) - hidden


@misconception("7.5", "mlp-not-modulated", replaces="dit_block", reads=BLOCK)
def mlp_not_modulated(hidden: Tensor, embedding: Tensor, weights: Weights, heads: int) -> Tensor:
    """The second norm was not shifted and scaled. The MLP hears of the condition too, through
    shift_mlp and scale_mlp."""
    six = six_of(embedding, weights)
    six[3:5] = torch.zeros_like(six[3]), torch.zeros_like(six[4])
    return with_mlp(with_attention(hidden, six, weights, heads), six, weights)


@misconception("7.5", "mlp-one-plus-forgotten", replaces="dit_block", reads=BLOCK)
def mlp_one_plus(hidden: Tensor, embedding: Tensor, weights: Weights, heads: int) -> Tensor:
    """The second norm was multiplied by scale_mlp, not by 1 + scale_mlp."""
    six = six_of(embedding, weights)
    six[4] = six[4] - 1
    return with_mlp(with_attention(hidden, six, weights, heads), six, weights)


@misconception("7.5", "second-norm-forgotten", replaces="dit_block", reads=BLOCK)
def no_second_norm(hidden: Tensor, embedding: Tensor, weights: Weights, heads: int) -> Tensor:
    """The MLP was given the hidden states without a norm. Each branch normalises what it gets."""
    six = six_of(embedding, weights)
    x = with_attention(hidden, six, weights, heads)
    return x + six[5] * thought(x * (1 + six[4]) + six[3], weights)


@misconception("7.5", "second-epsilon-as-the-first", replaces="dit_block", reads=BLOCK)
def same_epsilon(hidden: Tensor, embedding: Tensor, weights: Weights, heads: int) -> Tensor:
    """The second norm added 1e-6 like the first. In this block it adds 1e-5, which shows when the
    hidden states are small."""
    six = six_of(embedding, weights)
    x = with_attention(hidden, six, weights, heads)
    return x + six[5] * thought(normed(x, 1e-6, six[3], six[4]), weights)


@misconception("7.5", "exact-gelu", replaces="dit_block", reads=BLOCK)
def exact_gelu(hidden: Tensor, embedding: Tensor, weights: Weights, heads: int) -> Tensor:
    """GELU was used in its exact form. This block has activation_fn "gelu-approximate", the tanh
    form: they differ in the third decimal."""
    six = six_of(embedding, weights)
    x = with_attention(hidden, six, weights, heads)
    return x + six[5] * thought(normed(x, 1e-5, six[3], six[4]), weights, "none")


@misconception("7.5", "silu-in-the-mlp", replaces="dit_block", reads=BLOCK)
def silu_in_mlp(hidden: Tensor, embedding: Tensor, weights: Weights, heads: int) -> Tensor:
    """The MLP used SiLU. SiLU is for the condition; the MLP has GELU in its tanh form."""
    six = six_of(embedding, weights)
    x = with_attention(hidden, six, weights, heads)
    wide = F.silu(layer(normed(x, 1e-5, six[3], six[4]), weights, "ff.net.0.proj"))
    return x + six[5] * layer(wide, weights, "ff.net.2")


@misconception("7.5", "attention-of-unnormalised-tokens", replaces="dit_block", reads=BLOCK)
def attention_unnormalised(
    hidden: Tensor, embedding: Tensor, weights: Weights, heads: int
) -> Tensor:
    """The attention was given the hidden states. It reads the normalised and modulated ones; the
    hidden states are what its result is added to."""
    six = six_of(embedding, weights)
    x = hidden + six[2] * looked_around(hidden, weights, heads)
    return with_mlp(x, six, weights)


# 7.6


@misconception("7.6", "skip-added", replaces="unet_up_input", reads=SKIPS)
def skip_added(hidden: Tensor, skips: Sequence[Tensor]) -> Any:
    """The skip was added to the hidden states. In this UNet it is concatenated along the channels,
    and the resnet's first convolution mixes them."""
    return hidden + skips[-1], skips[:-1]


@misconception("7.6", "first-skip-first", replaces="unet_up_input", reads=SKIPS)
def first_skip_first(hidden: Tensor, skips: Sequence[Tensor]) -> Any:
    """The skip made first was taken first. The way up mirrors the way down: a stack, not a
    queue."""
    return torch.cat([hidden, skips[0]], dim=1), skips[1:]


@misconception("7.6", "first-skip-of-the-level", replaces="unet_up_input", reads=SKIPS)
def first_of_the_level(hidden: Tensor, skips: Sequence[Tensor]) -> Any:
    """The first skip of the right size was taken. Several skips have one size, and the latest of
    them comes first; no shape tells them apart."""
    place = [skip.shape[2:] for skip in skips].index(hidden.shape[2:])
    rest = [skip for number, skip in enumerate(skips) if number != place]
    return torch.cat([hidden, skips[place]], dim=1), rest


@misconception("7.6", "skip-in-front", replaces="unet_up_input", reads=SKIPS)
def skip_in_front(hidden: Tensor, skips: Sequence[Tensor]) -> Any:
    """The skip's channels came first. The hidden states' do: the resnet's convolution was trained
    on that order."""
    return torch.cat([skips[-1], hidden], dim=1), skips[:-1]


@misconception("7.6", "joined-along-the-batch", replaces="unet_up_input", reads=SKIPS)
def along_the_batch(hidden: Tensor, skips: Sequence[Tensor]) -> Any:
    """The two were joined along the batch, torch.cat's default axis. The channels are axis 1."""
    return torch.cat([hidden, skips[-1]]), skips[:-1]


@misconception("7.6", "skip-used-again", replaces="unet_up_input", reads=SKIPS)
def used_again(hidden: Tensor, skips: Sequence[Tensor]) -> Any:
    """The skip that was used is still among the remaining ones. Each is used once."""
    return torch.cat([hidden, skips[-1]], dim=1), skips


@misconception("7.6", "remaining-skips-reversed", replaces="unet_up_input", reads=SKIPS)
def reversed_skips(hidden: Tensor, skips: Sequence[Tensor]) -> Any:
    """The remaining skips came back in the opposite order. The next resnet will look for the latest
    one at the end."""
    return torch.cat([hidden, skips[-1]], dim=1), skips[:-1][::-1]


# 7.7


@misconception("7.7", "width-before-height", replaces="size_conditioning", reads=SIZE)
def width_first(original: Pair, crop: Pair, target: Pair, dim: int) -> Any:
    """The pairs came as (width, height). They are (height, width), and the crop (top, left), as
    tensors are indexed and not as image programs say it."""
    return sizes([*original[::-1], *crop[::-1], *target[::-1]], dim)


@misconception("7.7", "crop-last", replaces="size_conditioning", reads=SIZE)
def crop_last(original: Pair, crop: Pair, target: Pair, dim: int) -> Any:
    """The crop came last. It stands between the original and the target size."""
    return sizes([*original, *target, *crop], dim)


@misconception("7.7", "target-before-original", replaces="size_conditioning", reads=SIZE)
def target_first(original: Pair, crop: Pair, target: Pair, dim: int) -> Any:
    """The target size came first. The original size does; the target comes last."""
    return sizes([*target, *crop, *original], dim)


@misconception("7.7", "crop-as-left-top", replaces="size_conditioning", reads=SIZE)
def left_top(original: Pair, crop: Pair, target: Pair, dim: int) -> Any:
    """The crop came as (left, top). It is (top, left), the vertical one first like the heights."""
    return sizes([*original, *crop[::-1], *target], dim)


@misconception("7.7", "sizes-in-latents", replaces="size_conditioning", reads=SIZE)
def in_latents(original: Pair, crop: Pair, target: Pair, dim: int) -> Any:
    """The sizes were divided by 8. They are told in pixels; the network never sees the VAE."""
    return sizes([number / 8 for number in (*original, *crop, *target)], dim)


@misconception("7.7", "no-batch-axis", replaces="size_conditioning", reads=SIZE)
def no_batch_axis(original: Pair, crop: Pair, target: Pair, dim: int) -> Any:
    """time_ids has no batch axis. It is (1, 6), so that it can be repeated for every sample."""
    ids, embedding = sizes([*original, *crop, *target], dim)
    return ids[0], embedding


@misconception("7.7", "size-sines-first", replaces="size_conditioning", reads=SIZE)
def size_sines_first(original: Pair, crop: Pair, target: Pair, dim: int) -> Any:
    """The sines came first in each embedding. add_time_proj has flip_sin_to_cos True, as the
    timestep's own projection has."""
    ids = sizes([*original, *crop, *target], dim)[0]
    return ids, waves(ids[0], dim, False, dim // 2).view(1, -1)


@misconception("7.7", "size-half-minus-one", replaces="size_conditioning", reads=SIZE)
def size_half_minus_one(original: Pair, crop: Pair, target: Pair, dim: int) -> Any:
    """The exponents were divided by half − 1. add_time_proj has downscale_freq_shift 0."""
    ids = sizes([*original, *crop, *target], dim)[0]
    return ids, waves(ids[0], dim, True, dim // 2 - 1).view(1, -1)


@misconception("7.7", "embeddings-interleaved", replaces="size_conditioning", reads=SIZE)
def embeddings_interleaved(original: Pair, crop: Pair, target: Pair, dim: int) -> Any:
    """The six embeddings were woven into each other. They lie side by side: all of the first
    number, then all of the second."""
    ids = sizes([*original, *crop, *target], dim)[0]
    return ids, waves(ids[0], dim, True, dim // 2).T.reshape(1, -1)


@misconception("7.7", "embeddings-not-joined", replaces="size_conditioning", reads=SIZE)
def not_joined(original: Pair, crop: Pair, target: Pair, dim: int) -> Any:
    """The six embeddings stayed six rows. One image has one row of 6·dim numbers, which is joined
    to the pooled text embedding."""
    ids, embedding = sizes([*original, *crop, *target], dim)
    return ids, embedding.view(6, dim)
