"""Lab 05 · Conditioning flow: which condition reaches which place, in which shape, for which row.

Goal: follow everything that is no latent from the encoders to the network: states of two and three
text encoders, the pooled vector, the negative side, padding, image prompts with keys and values of
their own, the rows of a batch, and pictures that join the sequence.

Symbols: B = rows, P = prompts, L, M = tokens of text, N = tokens of the picture, D = features of a
token, h, w = rows and columns of a grid of tokens.

Encoders are no models here: what they give is handed over as tensors, or asked for with a callback.
`weights` is always a state dict: names to tensors, linear layers as "NAME.weight" (out, in) and
"NAME.bias" (out).

`diffusers` cannot be imported in this file: what is asked is written in Python and torch.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor


def sdxl_conditions(
    outputs: Sequence[Mapping[str, Any]], clip_skip: int | None
) -> tuple[Tensor, Tensor]:
    """5.1 · (embeds, pooled) of Stable Diffusion XL, from what its text encoders gave.

    outputs: one dict for each encoder, in order: "hidden_states", a list of (B, L, D_i), the
    embeddings first and the last layer last; "last_hidden_state", (B, L, D_i); and "text_embeds"
    (B, D_p), the projected vector, or "pooler_output" (B, D_i), one that is not projected.
    clip_skip: None, or how many layers further from the end the states are taken.

    embeds: (B, L, Σ D_i): of each encoder the last state but one, and with clip_skip k the one k
    before it, side by side. pooled: text_embeds of the encoder that has them; where none has them,
    an exception.

    Source: StableDiffusionXLPipeline.encode_prompt, its positive side.

    >>> states = [torch.full((1, 2, 1), float(n)) for n in range(4)]
    >>> first = {"hidden_states": states, "last_hidden_state": states[3]}
    >>> outputs = [first | {"pooler_output": states[0][0]}, first | {"text_embeds": states[1][0]}]
    >>> sdxl_conditions(outputs, None)[0].tolist()
    [[[2.0, 2.0], [2.0, 2.0]]]
    >>> sdxl_conditions(outputs, 1)[0][0, 0].tolist()
    [1.0, 1.0]
    """
    raise NotImplementedError("TODO 5.1: sdxl_conditions")


def sd3_conditions(
    clip_hidden: Sequence[Tensor],
    clip_pooled: Sequence[Tensor],
    t5_hidden: Tensor | None,
    width: int,
    t5_length: int,
) -> tuple[Tensor, Tensor]:
    """5.1 · (embeds, pooled) of Stable Diffusion 3, from two CLIPs and T5.

    clip_hidden: of each CLIP the states that are taken, (B, L, D_i). clip_pooled: of each the
    projected vector, (B, D_p,i). t5_hidden: (B, M, width), or None where T5 was left out. width: of
    a token in the transformer, at least Σ D_i. t5_length: how many tokens T5 would have given.

    embeds: (B, L + M, width): both CLIPs side by side and zeros behind them up to width; then, as
    further tokens, T5's states. Without T5: t5_length tokens of zeros. pooled: both side by side.
    In the dtype of the states.

    Source: StableDiffusion3Pipeline.encode_prompt.

    >>> states, vectors = [torch.ones(1, 1, 1), torch.full((1, 1, 1), 2.0)], [torch.ones(1, 2)] * 2
    >>> embeds, pooled = sd3_conditions(states, vectors, None, 3, 1)
    >>> embeds.tolist(), pooled.shape
    ([[[1.0, 2.0, 0.0], [0.0, 0.0, 0.0]]], torch.Size([1, 4]))
    """
    raise NotImplementedError("TODO 5.1: sd3_conditions")


def negative_conditions(
    prompts: Sequence[str],
    negative: str | Sequence[str] | None,
    force_zeros: bool,
    encode: Callable[[list[str]], tuple[Tensor, Tensor]],
) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
    """5.2 · ((embeds, pooled) of the prompts, (embeds, pooled) of their negatives).

    negative: None, one text for all prompts, or one for each. encode(texts) gives (embeds, pooled)
    with a row for each text of a list.

    Nobody said anything (None): zeros of the same shapes and dtypes when force_zeros, and otherwise
    the empty text "" for each. What somebody said is encoded, "" too, whatever force_zeros is. A
    list that has not one text for each prompt: ValueError. Only what is used is encoded.

    Source: StableDiffusionXLPipeline.encode_prompt with force_zeros_for_empty_prompt.

    >>> lengths = lambda texts: (torch.tensor([[float(len(t))] for t in texts]),) * 2
    >>> negative_conditions(["a cat", "it"], "no", True, lengths)[1][0].tolist()
    [[2.0], [2.0]]
    """
    raise NotImplementedError("TODO 5.2: negative_conditions")


def pack_valid(
    hidden: Tensor, mask: Tensor, drop: int, length: int | None
) -> tuple[Tensor, Tensor]:
    """5.3 · (embeds, mask) with the real tokens of each row in front and zeros behind them.

    hidden: (B, L, D). mask: (B, L) of 0 and 1 in any integer dtype; the zeros, padding, are all on
    the right or all on the left of a row. The first `drop` real tokens of each row, a template, are
    left out; those that remain move to the front, in their order. length: of the result, or None
    for that of the row with most tokens remaining.

    embeds: (B, length, D) in hidden's dtype, exact zeros where there is no token. mask: (B, length)
    int64, 1 where there is one. A row with more tokens remaining than length, or with none:
    ValueError.

    Source: WanPipeline and QwenImagePipeline, where they encode a prompt.

    >>> hidden = torch.tensor([[[1.0], [2.0], [3.0]], [[4.0], [5.0], [6.0]]])
    >>> embeds, mask = pack_valid(hidden, torch.tensor([[1, 1, 1], [0, 1, 1]]), 1, None)
    >>> embeds[:, :, 0].tolist(), mask.tolist()
    ([[2.0, 3.0], [6.0, 0.0]], [[1, 1], [1, 0]])
    """
    raise NotImplementedError("TODO 5.3: pack_valid")


def joint_attention(
    image: Tensor,
    text: Tensor,
    weights: Mapping[str, Tensor],
    heads: int,
    mask: Tensor | None,
) -> tuple[Tensor, Tensor]:
    """5.4 · One attention over the tokens of picture and text: (image, text), each with its own
    layers.

    image: (B, N, D). text: (B, M, D). weights, all linear ones with a bias: to_q, to_k, to_v and
    to_out.0 of the picture; add_q_proj, add_k_proj, add_v_proj and to_add_out of the text; and
    "norm_q.weight", "norm_k.weight", "norm_added_q.weight", "norm_added_k.weight" of (D / heads).
    mask: (B, M) bool, True where a token of text may be looked at; or None for all.

    Queries and keys are normed in each head, x / √(mean of x² + 1e-6) · weight; values are not.
    Then everybody asks everybody: softmax(q·k / √(D / heads)) over N + M keys, without those of
    text that the mask leaves out. Their own queries still ask. No positions.

    Source: JointAttnProcessor2_0 and FluxAttnProcessor.

    >>> w = {f"{n}.weight": torch.eye(2) for n in ("to_q", "to_k", "to_v", "to_out.0")}
    >>> w |= {f"add_{n}_proj.weight": torch.eye(2) for n in "qkv"}
    >>> w |= {f"to_add_out.weight": torch.eye(2)}
    >>> w |= {name.replace("weight", "bias"): torch.zeros(2) for name in w}
    >>> w |= {f"norm_{n}.weight": torch.ones(2) for n in ("q", "k", "added_q", "added_k")}
    >>> image, text = joint_attention(torch.ones(1, 3, 2), torch.ones(1, 1, 2), w, 1, None)
    >>> image.shape, text.shape
    (torch.Size([1, 3, 2]), torch.Size([1, 1, 2]))
    """

    raise NotImplementedError("TODO 5.4: joint_attention")


def image_prompt_attention(
    hidden: Tensor,
    text: Tensor,
    images: Sequence[Tensor],
    weights: Mapping[str, Tensor],
    heads: int,
    scales: Sequence[float],
) -> Tensor:
    """5.5 · Cross-attention to a text and, beside it, to the tokens of image prompts.

    hidden: (B, N, D). text: (B, M, C). images: for each adapter i its tokens, (B, T_i, C). scales:
    one for each, of any sign. weights: to_q, to_k, to_v without biases, to_out.0 with one, and for
    each adapter to_k_ip.i and to_v_ip.i without.

    Every attention has the queries of to_q and a softmax of its own, scores over √(D / heads).
    Returns to_out.0(attention to the text + Σ scales[i] · attention to images[i]), (B, N, D). Not
    as many images as scales: ValueError.

    Source: IPAdapterAttnProcessor2_0.

    >>> w = {f"{n}.weight": torch.eye(2) for n in ("to_q", "to_k", "to_v", "to_out.0")}
    >>> w |= {"to_k_ip.0.weight": torch.eye(2), "to_v_ip.0.weight": torch.eye(2)}
    >>> w["to_out.0.bias"] = torch.zeros(2)
    >>> hidden, text, image = torch.zeros(1, 1, 2), torch.ones(1, 3, 2), torch.ones(1, 4, 2)
    >>> image_prompt_attention(hidden, text, [image], w, 1, [0.5]).tolist()
    [[[1.5, 1.5]]]
    """
    raise NotImplementedError("TODO 5.5: image_prompt_attention")


def batch_conditions(
    positive: Mapping[str, Tensor],
    negative: Mapping[str, Tensor] | None,
    images_per_prompt: int,
) -> dict[str, Tensor]:
    """5.6 · What the network is given beside the latents: a row for each row of latents.

    positive, negative: tensors with any number of axes, of P rows, one a prompt, or of 1 row that
    all prompts share; the same names in both. P is the largest number of rows. negative None: the
    run is not guided.

    Every entry gets P·n rows, the n images of a prompt together, [a, a, b, b]. With negatives their
    P·n rows come first and the positive ones behind, in every entry alike.

    Source: StableDiffusionXLPipeline, before its loop.

    >>> positive = {"embeds": torch.tensor([[1.0], [2.0]]), "size": torch.tensor([[8.0]])}
    >>> batch = batch_conditions(positive, {k: -v for k, v in positive.items()}, 2)
    >>> batch["embeds"].flatten().tolist()
    [-1.0, -1.0, -2.0, -2.0, 1.0, 1.0, 2.0, 2.0]
    >>> batch["size"].flatten().tolist()
    [-8.0, -8.0, -8.0, -8.0, 8.0, 8.0, 8.0, 8.0]
    """
    raise NotImplementedError("TODO 5.6: batch_conditions")


def edit_prediction(
    denoiser: Callable[[Tensor, Tensor], Tensor],
    tokens: Tensor,
    grid: tuple[int, int],
    references: Sequence[tuple[Tensor, tuple[int, int]]],
) -> Tensor:
    """5.7 · The network's prediction for a picture that sees reference pictures as further tokens.

    tokens: (B, N, C) of the picture that is made, on a grid (h, w), N = h·w, columns fastest.
    references: for each its tokens (B, N_k, C) and its grid. denoiser(tokens, ids) gives one token
    for each that it gets.

    The denoiser is called once, with the tokens of the picture and behind them those of each
    reference, and with ids (Σ N, 3): 0 for the picture and k + 1 for reference k, then the row and
    the column in the own grid. Returns what it says of the picture's tokens alone, (B, N, C).

    Source: FluxKontextPipeline, which has one reference.

    >>> answer = edit_prediction(
    ...     lambda tokens, ids: tokens + ids.sum(dim=1)[:, None],
    ...     torch.zeros(1, 2, 1), (1, 2), [(torch.zeros(1, 1, 1), (1, 1))],
    ... )
    >>> answer.flatten().tolist()
    [0.0, 1.0]
    """
    raise NotImplementedError("TODO 5.7: edit_prediction")
