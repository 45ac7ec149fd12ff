"""Lab 03 · Latent shape tracking: five axes from pixels to tokens and back, and what they cost.

Goal: follow batch, channel, frame, height and width from a video through the VAE to the tokens of a
transformer and back. Frames are an axis and not a batch, compression in time has a rule of its own,
every token has a position on three axes, and the number of tokens is paid squared.

Symbols: B = videos, C = channels, F = frames, f = latent frames, H, W = height and width, N =
tokens, M = tokens of text, D = features of a token.

Layouts of a video's latents, by the order of their axes:
"bcfhw"    (B, C, F, H, W)    Wan, LTX
"bfchw"    (B, F, C, H, W)    CogVideoX, Stable Video Diffusion
"(bf)chw"  (B·F, C, H, W)     an image VAE or a UNet; the frames of one video are together

`diffusers` cannot be imported in this file: what is asked is written in Python and torch.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

LAYOUTS = ("bcfhw", "bfchw", "(bf)chw")


def latent_frames(frames: int, ratio: int) -> int:
    """3.1 · How many latent frames a causal video VAE makes of this many frames.

    The first frame is one latent frame by itself, after it come `ratio` frames for each: of 1 +
    ratio·k + r frames, r below ratio, 1 + k. frames or ratio below 1: ValueError.

    Source: AutoencoderKLWan's encode.

    >>> latent_frames(1, 4), latent_frames(17, 4), latent_frames(17, 8)
    (1, 5, 3)
    """
    ### BEGIN SOLUTION
    if frames < 1 or ratio < 1:
        raise ValueError(f"{frames} frames at ratio {ratio}")
    return (frames - 1) // ratio + 1
    ### END SOLUTION


def pixel_frames(latent: int, ratio: int) -> int:
    """3.1 · How many frames a causal video VAE decodes this many latent frames to.

    The first gives one frame, each other `ratio`. latent or ratio below 1: ValueError.

    Source: AutoencoderKLWan's decode.

    >>> pixel_frames(1, 4), pixel_frames(5, 4), pixel_frames(3, 8)
    (1, 17, 17)
    """
    ### BEGIN SOLUTION
    if latent < 1 or ratio < 1:
        raise ValueError(f"{latent} latent frames at ratio {ratio}")
    return (latent - 1) * ratio + 1
    ### END SOLUTION


def valid_frames(frames: int, ratio: int) -> int:
    """3.1 · The number of frames that a pipeline takes instead of one that does not fit.

    `frames` itself when it is ratio·k + 1. Otherwise ratio · (frames // ratio) + 1, which may be
    more or less, and is not always the nearest. frames or ratio below 1: ValueError.

    Source: WanPipeline's call.

    >>> valid_frames(81, 4), valid_frames(83, 4), valid_frames(84, 4), valid_frames(15, 8)
    (81, 81, 85, 9)
    """
    ### BEGIN SOLUTION
    if frames < 1 or ratio < 1:
        raise ValueError(f"{frames} frames, wanted at ratio {ratio}")
    if (frames - 1) % ratio == 0:
        return frames
    return frames // ratio * ratio + 1
    ### END SOLUTION


def relayout(latents: Tensor, source: str, target: str, batch: int) -> Tensor:
    """3.2 · The same latents with their axes in the order of another layout.

    source, target: of the three layouts above. batch: how many videos; "(bf)chw" does not show it.
    A view or a copy. A layout that is none of these, or a number of frames in "(bf)chw" that
    `batch` does not divide: ValueError.

    Source: AnimateDiffPipeline.decode_latents, CogVideoXPipeline.decode_latents.

    >>> relayout(torch.zeros(2, 4, 3, 8, 6), "bcfhw", "(bf)chw", 2).shape
    torch.Size([6, 4, 8, 6])
    """
    ### BEGIN SOLUTION
    for layout in (source, target):
        if layout not in LAYOUTS:
            raise ValueError(f"{layout} is no layout; known are {', '.join(LAYOUTS)}")
    frames_first = latents  # (B, F, C, H, W)
    if source == "(bf)chw":
        if batch < 1 or latents.shape[0] % batch:
            raise ValueError(f"{latents.shape[0]} frames are not those of {batch} videos")
        frames_first = latents.unflatten(0, (batch, -1))
    elif source == "bcfhw":
        frames_first = latents.permute(0, 2, 1, 3, 4)
    if target == "(bf)chw":
        return frames_first.flatten(0, 1)
    if target == "bcfhw":
        return frames_first.transpose(1, 2)
    return frames_first
    ### END SOLUTION


def patchify(latents: Tensor, patch: Sequence[int], channels_last: bool) -> Tensor:
    """3.3 · Latents cut into patches, a token each.

    latents: (B, C, F, H, W). patch: (t, p, q) latent frames, rows and columns. Returns (B, N,
    C·t·p·q): tokens with the frame slowest and the column fastest. The numbers of one token are
    in the order (c, t, p, q), as the weight of a Conv3d has them, or, with channels_last, (t, p,
    q, c). A side that its patch does not divide: ValueError.

    Source: LTXPipeline._pack_latents; WanTransformer3DModel's patch_embedding and its forward.

    >>> patchify(torch.arange(8.0).reshape(1, 2, 1, 2, 2), (1, 2, 1), True)[0].tolist()
    [[0.0, 4.0, 2.0, 6.0], [1.0, 5.0, 3.0, 7.0]]
    """
    ### BEGIN SOLUTION
    t, p, q = patch
    batch, channels, frames, height, width = latents.shape
    if frames % t or height % p or width % q:
        raise ValueError(f"latents of {tuple(latents.shape)} do not divide into {t} × {p} × {q}")
    split = latents.reshape(batch, channels, frames // t, t, height // p, p, width // q, q)
    order = (0, 2, 4, 6, 3, 5, 7, 1) if channels_last else (0, 2, 4, 6, 1, 3, 5, 7)
    return split.permute(order).flatten(4).flatten(1, 3)
    ### END SOLUTION


def unpatchify(
    tokens: Tensor, patch: Sequence[int], grid: Sequence[int], channels_last: bool
) -> Tensor:
    """3.3 · Tokens put together to latents again: what undoes patchify.

    tokens: (B, N, C·t·p·q). patch: (t, p, q). grid: (f, h, w), how many patches each way. Returns
    (B, C, f·t, h·p, w·q). A number of tokens that is not f·h·w, or of features that is no multiple
    of t·p·q: ValueError.

    Source: LTXPipeline._unpack_latents; the end of WanTransformer3DModel's forward.

    >>> tokens = torch.tensor([[[0.0, 4.0, 2.0, 6.0], [1.0, 5.0, 3.0, 7.0]]])
    >>> unpatchify(tokens, (1, 2, 1), (1, 1, 2), True).flatten().tolist()
    [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]
    """
    ### BEGIN SOLUTION
    t, p, q = patch
    f, h, w = grid
    if tokens.shape[1] != f * h * w or tokens.shape[2] % (t * p * q):
        raise ValueError(f"tokens of {tuple(tokens.shape)} are no {f} × {h} × {w} patches")
    sides = (t, p, q, -1) if channels_last else (-1, t, p, q)
    whole = tokens.reshape(tokens.shape[0], f, h, w, *sides)
    back = (0, 7, 1, 4, 2, 5, 3, 6) if channels_last else (0, 4, 1, 5, 2, 6, 3, 7)
    return whole.permute(back).flatten(6, 7).flatten(4, 5).flatten(2, 3)
    ### END SOLUTION


def grid_ids(frames: int, height: int, width: int, centred: bool) -> Tensor:
    """3.4 · The position of each token of a grid: (N, 3) int64 of frame, row and column.

    Tokens with the frame slowest and the column fastest. Each axis counts from 0; with centred,
    rows and columns run from −(n − n // 2) to n // 2 − 1, and frames from 0 all the same.

    Source: WanRotaryPosEmbed; QwenEmbedRope with scale_rope.

    >>> grid_ids(1, 2, 2, False).tolist()
    [[0, 0, 0], [0, 0, 1], [0, 1, 0], [0, 1, 1]]
    >>> grid_ids(1, 1, 3, True)[:, 2].tolist()
    [-2, -1, 0]
    """
    ### BEGIN SOLUTION
    rows, columns = torch.arange(height), torch.arange(width)
    if centred:
        rows, columns = rows - (height - height // 2), columns - (width - width // 2)
    axes = torch.meshgrid(torch.arange(frames), rows, columns, indexing="ij")
    return torch.stack(axes, dim=-1).reshape(-1, 3)
    ### END SOLUTION


def rotary(ids: Tensor, axes: Sequence[int], theta: float) -> tuple[Tensor, Tensor]:
    """3.4 · (cos, sin) of the angles by which a head's pairs are turned, both (N, Σ axes) float32.

    ids: (N, K) whole numbers. axes: for each of the K axes how many features of a head it has, d_k,
    all even. The pair j of axis k turns by id · theta^(−2j / d_k), j = 0 … d_k/2 − 1, and stands
    twice side by side; the axes follow each other. Angles are computed in float64.

    Source: FluxPosEmbed, WanRotaryPosEmbed.

    >>> cos, sin = rotary(torch.tensor([[0, 2]]), (2, 4), 100.0)
    >>> sin[0].mul(1000).round().tolist()
    [0.0, 0.0, 909.0, 909.0, 199.0, 199.0]
    """
    ### BEGIN SOLUTION
    angles = []
    for k, width in enumerate(axes):
        exponents = torch.arange(0, width, 2, dtype=torch.float64) / width
        angles.append(ids[:, k, None].double() * theta**-exponents)
    both = torch.cat(angles, dim=-1).repeat_interleave(2, dim=-1)
    return both.cos().float(), both.sin().float()
    ### END SOLUTION


def apply_rotary(x: Tensor, cos: Tensor, sin: Tensor, pairing: str) -> Tensor:
    """3.4 · Queries or keys, turned by their positions.

    x: (B, heads, N, D). cos, sin: (N, D) float32, in the layout of the pairing: side by side for
    "adjacent", one half after the other for "halves". pairing: "adjacent" turns (x₀, x₁), (x₂,
    x₃) and so on; "halves" turns (x₀, x_(D/2)), (x₁, x_(D/2+1)) and so on. A pair (a, b) becomes
    (a·cos − b·sin, b·cos + a·sin). Computed in float32, returned in x's dtype. Another pairing:
    ValueError.

    Source: apply_rotary_emb with use_real_unbind_dim −1 and −2.

    >>> x, cos, sin = torch.tensor([[[[1.0, 2.0]]]]), torch.zeros(1, 2), torch.ones(1, 2)
    >>> apply_rotary(x, cos, sin, "adjacent").flatten().tolist()
    [-2.0, 1.0]
    """
    ### BEGIN SOLUTION
    wide = x.float()
    if pairing == "adjacent":
        turned = torch.stack((-wide[..., 1::2], wide[..., ::2]), dim=-1).flatten(-2)
    elif pairing == "halves":
        first, second = wide.chunk(2, dim=-1)
        turned = torch.cat((-second, first), dim=-1)
    else:
        raise ValueError(f"{pairing} is no pairing; known are adjacent and halves")
    return (wide * cos + turned * sin).to(x.dtype)
    ### END SOLUTION


def snap(height: int, width: int, multiple: int) -> tuple[int, int]:
    """3.5 · Height and width cut down to multiples. One that is not positive: ValueError.

    Source: VaeImageProcessor.get_default_height_width.

    >>> snap(1080, 1920, 16)
    (1072, 1920)
    """
    ### BEGIN SOLUTION
    if min(height, width, multiple) < 1:
        raise ValueError(f"{height} × {width} cut to {multiple}")
    return height - height % multiple, width - width % multiple
    ### END SOLUTION


def fit_area(area: float, ratio: float, multiple: int) -> tuple[int, int]:
    """3.5 · (height, width) of about this area, with ratio = width / height.

    The exact width is √(area · ratio), the exact height that width / ratio; then each goes to its
    nearest multiple, halves to the even one. One that is not positive: ValueError.

    Source: calculate_dimensions of QwenImageEditPipeline (which gives the width first).

    >>> fit_area(1024 * 1024, 16 / 9, 32)
    (768, 1376)
    """
    ### BEGIN SOLUTION
    if min(area, ratio, multiple) <= 0:
        raise ValueError(f"an area of {area} at {ratio} in steps of {multiple}")
    exact_width = math.sqrt(area * ratio)
    exact_height = exact_width / ratio
    return round(exact_height / multiple) * multiple, round(exact_width / multiple) * multiple
    ### END SOLUTION


def frame_batches(frames: int, size: int, rest: str) -> list[tuple[int, int]]:
    """3.6 · How a long clip is cut into batches of frames: [(start, stop), …], stop left out.

    Every frame is in exactly one batch, and the batches are in order. rest says where the frames
    go that fill no batch of `size`:
    "first": into the first batch, which is longer by them (17 by 8 is 9, 8). Fewer frames than
    `size` are one batch.
    "causal": frame 0 is a batch by itself, then come batches of `size`, the last may be short.
    "last": the last batch is short.
    Another rest, frames or size below 1: ValueError.

    Source: AutoencoderKLCogVideoX (first), AutoencoderKLWan (causal), AnimateDiffPipeline's
    decode_latents (last).

    >>> frame_batches(19, 8, "first"), frame_batches(9, 4, "causal")
    ([(0, 11), (11, 19)], [(0, 1), (1, 5), (5, 9)])
    """
    ### BEGIN SOLUTION
    if rest not in ("first", "causal", "last") or frames < 1 or size < 1:
        raise ValueError(f"{frames} frames by {size}, {rest}")
    if rest == "last":
        begin = 0
    elif rest == "causal":
        begin = 1
    else:
        begin = min(size + frames % size, frames)
    head = [(0, begin)] if begin else []
    return head + [(start, min(start + size, frames)) for start in range(begin, frames, size)]
    ### END SOLUTION


def transformer_flops(
    config: Mapping[str, Any], batch: int, tokens: int, text_tokens: int
) -> dict[str, int]:
    """3.7 · Operations of all matrix products in Wan's blocks, in one call: self, cross and ffn.

    config: num_attention_heads, attention_head_dim, num_layers, ffn_dim. batch: videos. tokens: N
    of one video; text_tokens: M. A multiply-add counts as two operations. Per block, with D =
    heads · head dim:
    "self": query, key, value and output of N tokens, D → D each; scores and weighted values.
    "cross": query and output of N tokens, key and value of M; scores and weighted values.
    "ffn": D → ffn_dim and back, of N tokens.
    Norms, rotation, softmax and biases are not counted.

    Source: WanTransformerBlock, counted by torch.utils.flop_counter.

    >>> config = {"num_attention_heads": 2, "attention_head_dim": 3, "num_layers": 1, "ffn_dim": 5}
    >>> transformer_flops(config, 1, 10, 4)
    {'self': 5280, 'cross': 2976, 'ffn': 1200}
    """
    ### BEGIN SOLUTION
    d = config["num_attention_heads"] * config["attention_head_dim"]
    n, m = tokens, text_tokens
    calls = 2 * batch * config["num_layers"]
    projected = 4 * n * d * d
    attended = 2 * n * n * d
    crossed = 2 * n * d * d + 2 * m * d * d + 2 * n * m * d
    fed = 2 * n * d * config["ffn_dim"]
    return {"self": calls * (projected + attended), "cross": calls * crossed, "ffn": calls * fed}
    ### END SOLUTION
