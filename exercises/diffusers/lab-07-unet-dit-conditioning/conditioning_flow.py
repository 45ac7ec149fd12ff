"""Lab 07 · UNet and DiT conditioning: how a condition enters two backbones.

Goal: see that a UNet and a diffusion transformer keep one contract, latents in and latents of the
same shape out, and differ in the way between. A condition (timestep, prompt, class, image size)
becomes a vector or a sequence of vectors, and enters by addition, by attention, or by shifting and
scaling a normalisation. The backbone is an architecture. What its output means (ε, v, x0) is the
objective's business and stands nowhere in this file.

Symbols: B = batch, C = channels, H and W = the sides of the latents, N = tokens of the hidden
states, M = tokens of the context, D = width of the hidden states, p and q = row and column inside
a patch.

`weights` is a dict of tensors under the names of diffusers' state_dict. A linear layer's weight has
the shape (out, in), as torch.nn.functional.linear takes it.

`diffusers` cannot be imported in this file: what is asked is written in torch.
"""

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor


def timestep_embedding(
    timesteps: Tensor, dim: int, flip_sin_to_cos: bool, downscale_freq_shift: float
) -> Tensor:
    """7.1 · Each timestep as `dim` numbers: sines and cosines of it at falling frequencies.

    timesteps: (B,), whole or fractional, any dtype. dim: 4 or more. Returns float32 (B, dim).

    With half = dim // 2 and i = 0 … half − 1 the frequencies are
    10000^(−i / (half − downscale_freq_shift)), and the angle is timestep · frequency, in radians.
    All sines come first, then all cosines; with flip_sin_to_cos the cosines come first. An odd dim
    ends in a column of zeros.

    Source: Vaswani et al. 2017 (arXiv 1706.03762), section 3.5; get_timestep_embedding in
    diffusers.models.embeddings. Stable Diffusion: flip_sin_to_cos True, downscale_freq_shift 0.

    >>> embedding = timestep_embedding(torch.tensor([0.0, 1.0]), 5, True, 0)
    >>> [[round(number, 3) for number in row] for row in embedding.tolist()]
    [[1.0, 1.0, 0.0, 0.0, 0.0], [0.54, 1.0, 0.841, 0.01, 0.0]]
    """
    raise NotImplementedError("TODO 7.1: timestep_embedding")


def cross_attention(
    hidden: Tensor,
    context: Tensor | None,
    weights: dict[str, Tensor],
    heads: int,
    mask: Tensor | None,
) -> Tensor:
    """7.2 · Multi-head attention: each hidden token gathers values from the context's tokens.

    hidden: (B, N, D). context: (B, M, E), or None: then hidden attends to itself, and M is N.
    mask: bool (B, M), True where a token may be seen, at least one in each row; None: all are seen.
    heads is the *number* of heads; the queries' width is heads times the head size. Returns
    (B, N, D).

    weights: to_q.weight, to_k.weight, to_v.weight, to_out.0.weight, to_out.0.bias, and perhaps
    to_q.bias, to_k.bias, to_v.bias. Queries come from hidden, keys and values from the context.
    The channels of a head lie next to each other: the first head has the first ones.

    attention = softmax over the context of (query · key / √(head size)), and the heads' results,
    side by side again, go through to_out.0.

    Source: Vaswani et al. 2017 (arXiv 1706.03762), section 3.2; Attention with AttnProcessor in
    diffusers.models.attention_processor.

    >>> weights = {f"{name}.weight": torch.eye(2) for name in ("to_q", "to_k", "to_v", "to_out.0")}
    >>> weights["to_out.0.bias"] = torch.tensor([0.0, 10.0])
    >>> hidden, context = torch.zeros(1, 1, 2), torch.tensor([[[2.0, 0.0], [4.0, 6.0]]])
    >>> cross_attention(hidden, context, weights, 2, None).tolist()
    [[[3.0, 13.0]]]
    >>> cross_attention(hidden, context, weights, 2, torch.tensor([[True, False]])).tolist()
    [[[2.0, 10.0]]]
    """
    raise NotImplementedError("TODO 7.2: cross_attention")


def patchify(latents: Tensor, patch: int) -> Tensor:
    """7.3 · Latents as a sequence of tokens: one for each square of patch × patch latents.

    latents: (B, C, H, W), both sides multiples of patch. Returns
    (B, (H / patch)·(W / patch), patch·patch·C) in the same dtype. Tokens go along the rows of
    patches. The numbers of a token are ordered (p, q, c): the channels of the top left latent, then
    those of its right neighbour, and so on.

    Source: Peebles and Xie 2023 (arXiv 2212.09748), section 3.2; PatchEmbed in
    diffusers.models.embeddings is this order followed by a linear layer.

    >>> patchify(torch.arange(8.0).reshape(1, 2, 2, 2), 2).tolist()
    [[[0.0, 4.0, 1.0, 5.0, 2.0, 6.0, 3.0, 7.0]]]
    """
    raise NotImplementedError("TODO 7.3: patchify")


def unpatchify(tokens: Tensor, patch: int, height: int, width: int) -> Tensor:
    """7.3 · The way back: tokens as 7.3 orders them → latents of height × width.

    tokens: (B, N, patch·patch·C). height and width are the latents', multiples of patch, and need
    not be equal. Returns (B, C, height, width) in the same dtype.

    Source: SD3Transformer2DModel.forward and, for squares, DiTTransformer2DModel.forward, after
    their last linear layer.

    >>> tokens = torch.tensor([[[0.0, 4.0, 1.0, 5.0], [2.0, 6.0, 3.0, 7.0]]])
    >>> unpatchify(tokens, 2, 2, 4).tolist()
    [[[[0.0, 4.0, 2.0, 6.0], [1.0, 5.0, 3.0, 7.0]]]]
    """
    raise NotImplementedError("TODO 7.3: unpatchify")


def adaln_zero(
    hidden: Tensor, embedding: Tensor, weight: Tensor, bias: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """7.4 · A layer norm whose shift and scale are computed from the condition.

    hidden: (B, N, D). embedding: (B, D), the condition. weight: (6·D, D), bias: (6·D,). Returns
    (normalised (B, N, D), gate_msa, shift_mlp, scale_mlp, gate_mlp), the last four (B, D).

    The linear layer is applied to SiLU(embedding) and gives six vectors, in this order: shift_msa,
    scale_msa, gate_msa, shift_mlp, scale_mlp, gate_mlp. Then
    normalised = LayerNorm(hidden)·(1 + scale_msa) + shift_msa, where LayerNorm has no weights of
    its own and adds 1e-6 to the variance of a token's D channels. The other four vectors are handed
    on: the block uses them later.

    Source: Peebles and Xie 2023 (arXiv 2212.09748), section 3.2; AdaLayerNormZero in
    diffusers.models.normalization.

    >>> bias = torch.tensor([1.0, 1.0, 2.0, 2.0, 3.0, 3.0, 4.0, 4.0, 5.0, 5.0, 6.0, 6.0])
    >>> hidden, embedding = torch.tensor([[[7.0, 9.0]]]), torch.zeros(1, 2)
    >>> normalised, *others = adaln_zero(hidden, embedding, torch.zeros(12, 2), bias)
    >>> [round(number, 3) for number in normalised.flatten().tolist()]
    [-2.0, 4.0]
    >>> [other.tolist() for other in others]
    [[[3.0, 3.0]], [[4.0, 4.0]], [[5.0, 5.0]], [[6.0, 6.0]]]
    """
    raise NotImplementedError("TODO 7.4: adaln_zero")


def dit_block(hidden: Tensor, embedding: Tensor, weights: dict[str, Tensor], heads: int) -> Tensor:
    """7.5 · One block of a diffusion transformer: attention, then an MLP, both gated.

    hidden: (B, N, D). embedding: (B, D), the condition. Returns (B, N, D).

    weights: norm1.linear.weight and .bias (for 7.4); attn1.to_q.weight and .bias, the same for
    to_k, to_v and to_out.0 (for 7.2); ff.net.0.proj.weight (4·D, D) and .bias, ff.net.2.weight
    (D, 4·D) and .bias.

    * hidden = hidden + gate_msa · self-attention(normalised)
    * again a LayerNorm without weights, this one adding 1e-5, ·(1 + scale_mlp) + shift_mlp
    * hidden = hidden + gate_mlp · MLP of that: ff.net.0.proj, GELU in its tanh form, ff.net.2

    Source: Peebles and Xie 2023 (arXiv 2212.09748), figure 3; BasicTransformerBlock in
    diffusers.models.attention, norm_type "ada_norm_zero", activation_fn "gelu-approximate".

    >>> sizes = {"norm1.linear": (12, 2), "ff.net.0.proj": (8, 2), "ff.net.2": (2, 8)}
    >>> sizes |= {f"attn1.{name}": (2, 2) for name in ("to_q", "to_k", "to_v", "to_out.0")}
    >>> weights = {f"{name}.weight": torch.ones(size) for name, size in sizes.items()}
    >>> weights |= {f"{name}.bias": torch.zeros(size[0]) for name, size in sizes.items()}
    >>> hidden, embedding = torch.tensor([[[3.0, 5.0]]]), torch.zeros(1, 2)
    >>> dit_block(hidden, embedding, weights, 1).tolist()  # every gate is 0
    [[[3.0, 5.0]]]
    >>> weights["norm1.linear.bias"] = torch.ones(12)  # every gate is 1, and so on
    >>> [round(number, 2) for number in dit_block(hidden, embedding, weights, 1).flatten().tolist()]
    [22.64, 24.64]
    """
    raise NotImplementedError("TODO 7.5: dit_block")


def unet_up_input(hidden: Tensor, skips: Sequence[Tensor]) -> tuple[Tensor, Sequence[Tensor]]:
    """7.6 · What the next resnet of a UNet's way up gets, and the skips that remain.

    hidden: (B, C, H, W), from the layer before. skips: a tuple of the tensors kept on the way down
    that are still unused, in the order in which they were made. The one kept last goes first.
    Returns (input (B, C + C_skip, H, W), remaining skips): hidden's channels, then the skip's; and
    a tuple or a list of the others, in the same order.

    Source: Ronneberger et al. 2015 (arXiv 1505.04597), figure 1; the up blocks of
    UNet2DConditionModel, diffusers.models.unets.unet_2d_blocks.

    >>> skips = torch.zeros(1, 1, 4, 6), torch.full((1, 3, 2, 3), 9.0)
    >>> input, remaining = unet_up_input(torch.ones(1, 2, 2, 3), skips)
    >>> input.shape, input[0, :, 0, 0].tolist()
    (torch.Size([1, 5, 2, 3]), [1.0, 1.0, 9.0, 9.0, 9.0])
    >>> [skip.shape for skip in remaining]
    [torch.Size([1, 1, 4, 6])]
    """
    raise NotImplementedError("TODO 7.6: unet_up_input")


def size_conditioning(
    original: tuple[int, int], crop: tuple[int, int], target: tuple[int, int], dim: int
) -> tuple[Tensor, Tensor]:
    """7.7 · Stable Diffusion XL's six numbers about the image's size, and their embedding.

    original and target: (height, width) in pixels. crop: (top, left). dim: even, for each number.
    Returns (time_ids float32 (1, 6), embedding float32 (1, 6·dim)).

    The six are original height and width, crop top and left, target height and width. Each is
    embedded as a timestep is (7.1: cosines first, shift 0), and the six embeddings lie side by
    side.

    Source: Podell et al. 2023 (arXiv 2307.01952), section 2.2;
    StableDiffusionXLPipeline._get_add_time_ids and add_time_proj of its UNet.

    >>> time_ids, embedding = size_conditioning((768, 1344), (0, 32), (1024, 512), 4)
    >>> time_ids.tolist()
    [[768.0, 1344.0, 0.0, 32.0, 1024.0, 512.0]]
    >>> embedding.shape, [round(number, 3) for number in embedding[0, 8:16].tolist()]
    (torch.Size([1, 24]), [1.0, 1.0, 0.0, 0.0, 0.834, 0.949, 0.551, 0.315])
    """
    raise NotImplementedError("TODO 7.7: size_conditioning")
