"""Lab 10 · Memory: which tensor is the large one, and what does making it smaller cost?

Goal: read memory optimizations as changes of one tensor's life. Name the tensor that owns the peak
(scores, activations, weights), the technique that makes it smaller, and the price: more calls, more
copies over the bus, or numbers that are no longer the same. Each technique here leaves the formula
alone, except tiled decoding, which only comes close.

Symbols: B = batch, N = queries (tokens), M = keys, d = the size of a head, h and w = the sides of
latents. "Peak" is the largest number of bytes that are alive at one moment.

`diffusers` cannot be imported in this file: what is asked is written in torch.
"""

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor


def sliced_attention(q: Tensor, k: Tensor, v: Tensor, slice_size: int) -> Tensor:
    """10.1 · Attention with few maps of scores alive at once.

    q: (B, heads, N, d). k and v: (B, heads, M, d). slice_size: how many of the B·heads maps of
    scores, N × M each, may be alive at once; below 1 or above heads: ValueError. Returns
    (B, heads, N, d), the numbers of softmax(q·kᵀ / √d)·v, in q's dtype.

    Batch and heads are laid in one row of B·heads and taken slice_size at a time; the last slice
    may be a smaller one. Memory: slice_size·N·M scores in place of B·heads·N·M.

    Source: SlicedAttnProcessor and UNet2DConditionModel.set_attention_slice.

    >>> q = torch.tensor([2.0, 0.0]).reshape(1, 2, 1, 1)
    >>> k = torch.tensor([[0.0, 1.0]] * 2).reshape(1, 2, 2, 1)
    >>> out = sliced_attention(q, k, 4 * k + 5, 1)
    >>> [round(number, 3) for number in out.flatten().tolist()]
    [8.523, 7.0]
    """
    ### BEGIN SOLUTION
    batch, heads = q.shape[:2]
    if not 1 <= slice_size <= heads:
        raise ValueError(f"slice_size is {slice_size}; it is at least 1 and at most {heads} heads")
    queries, keys, values = (x.flatten(0, 1) for x in (q, k, v))
    out = torch.empty_like(queries)
    for start in range(0, batch * heads, slice_size):
        part = slice(start, start + slice_size)
        scores = queries[part] @ keys[part].mT / math.sqrt(q.shape[-1])
        out[part] = scores.softmax(-1) @ values[part]
    return out.unflatten(0, (batch, heads))
    ### END SOLUTION


def merge_attention(
    out_a: Tensor, lse_a: Tensor, out_b: Tensor, lse_b: Tensor
) -> tuple[Tensor, Tensor]:
    """10.2 · Attention over the keys of two parts, from the attention over each of them.

    out_a and out_b: (B, heads, N, d), each part's own softmax(scores)·v. lse_a and lse_b:
    (B, heads, N), each part's log Σ exp(score), of any size (1000 is no exception). Returns
    (out, lse) for all keys of both, in the same shapes and dtype.

    lse = log(exp lse_a + exp lse_b);  out = exp(lse_a − lse)·out_a + exp(lse_b − lse)·out_b.

    A part may be empty for a query (all its keys are masked): its lse is −inf and what its out
    holds there, any finite numbers, does not count. Empty in both: out 0 and lse −inf.

    Source: Milakov and Gimelshein 2018 (arXiv 1805.02867); ring attention merges its parts so.

    >>> half, double = torch.zeros(1, 1, 1), torch.full((1, 1, 1), math.log(2))
    >>> out, lse = merge_attention(torch.ones(1, 1, 1, 1), half, 4 * torch.ones(1, 1, 1, 1), double)
    >>> round(out.item(), 3), round(lse.exp().item(), 3)
    (3.0, 3.0)
    """
    ### BEGIN SOLUTION
    lse = torch.logaddexp(lse_a, lse_b)
    base = torch.where(lse.isneginf(), torch.zeros_like(lse), lse)  # −inf less −inf has no value
    weight_a, weight_b = (torch.exp(part - base).unsqueeze(-1) for part in (lse_a, lse_b))
    return weight_a * out_a + weight_b * out_b, lse
    ### END SOLUTION


def chunked_attention(
    q: Tensor, blocks: Callable[[int], tuple[Tensor, Tensor]], n: int
) -> tuple[Tensor, Tensor]:
    """10.2 · Attention whose keys and values come in n blocks, none of which is kept.

    q: (B, heads, N, d). blocks(j) for j = 0 … n − 1 gives (k_j, v_j), each (B, heads, M_j, d); the
    M_j may differ. n: at least 1. Fetch every block exactly once, in any order and from the thread
    that was called: all of them together do not fit. Returns (out, lse): softmax(q·kᵀ / √d)·v over
    all keys, (B, heads, N, d), and log Σ exp(score), (B, heads, N). The scores may be as large as
    1000 or as low as −1000.

    Source: Rabe and Staats 2021 (arXiv 2112.05682); Dao et al. 2022 (arXiv 2205.14135).

    >>> q, v = torch.zeros(1, 1, 1, 2), torch.tensor([[1.0, 10.0], [2.0, 20.0], [6.0, 60.0]])
    >>> parts = [v[None, None, :2], v[None, None, 2:]]
    >>> out, lse = chunked_attention(q, lambda j: (parts[j], parts[j]), 2)
    >>> [round(number, 3) for number in out.flatten().tolist()], round(lse.exp().item(), 3)
    ([3.0, 30.0], 3.0)
    """
    ### BEGIN SOLUTION
    out, lse = torch.zeros_like(q), torch.full_like(q[..., 0], -math.inf)
    for j in range(n):
        k, v = blocks(j)
        scores = q @ k.mT / math.sqrt(q.shape[-1])
        out, lse = merge_attention(out, lse, scores.softmax(-1) @ v, scores.logsumexp(-1))
    return out, lse
    ### END SOLUTION


def tiled_decode(
    decode: Callable[[Tensor], Tensor], latents: Tensor, tile: int, overlap: int, upscale: int
) -> Tensor:
    """10.3 · A picture decoded tile by tile, with neighbours blended into each other.

    decode: (B, C, h, w) to (B, 3, upscale·h, upscale·w). latents: (B, C, h, w). tile and overlap:
    in latent pixels; 0 ≤ overlap < tile, and overlap ≥ tile is a ValueError for latents of any
    size. Returns (B, 3, upscale·h, upscale·w), close to decode(latents) but not equal.

    Neither side above tile: decode is called once, with the latents as they are. Otherwise tiles of
    tile × tile begin at every multiple of tile − overlap that lies inside the latents, in both
    directions, and are cut off at the latents' edge. Each is decoded once, the whole batch in one
    call. Row by row from the upper left, each decoded tile is blended first with the one above it,
    then with the one to its left, both as they are after their own blending. Over the first
    n = min(overlap·upscale, both tiles' extents in this direction) rows (columns), row y of the new
    tile becomes (1 − y/n)·(row y of the last n rows of its neighbour) + (y/n)·(its own row y). Then
    each tile's first (tile − overlap)·upscale rows and columns are put together.

    Source: AutoencoderKL.tiled_decode, which keeps the overlap as a fraction of the tile.

    >>> decode = lambda z: z.repeat_interleave(2, 2).repeat_interleave(2, 3)
    >>> latents = torch.tensor([0.0, 1.0, 2.0]).reshape(1, 1, 1, 3)
    >>> tiled_decode(decode, latents, 2, 1, 2)[0, 0, 0].tolist()
    [0.0, 0.0, 1.0, 1.0, 2.0, 2.0]
    """
    ### BEGIN SOLUTION
    if overlap >= tile:
        raise ValueError(f"tiles of {tile} that overlap by {overlap} do not move on")
    height, width = latents.shape[-2:]
    if height <= tile and width <= tile:
        return decode(latents)

    def blended(before: Tensor, after: Tensor, dim: int) -> Tensor:
        n = min(overlap * upscale, before.shape[dim], after.shape[dim])
        own = torch.arange(n, device=after.device, dtype=after.dtype) / n
        own = own.reshape([-1, 1] if dim == -2 else [-1])
        last, first = before.narrow(dim, before.shape[dim] - n, n), after.narrow(dim, 0, n)
        rest = after.narrow(dim, n, after.shape[dim] - n)
        return torch.cat([(1 - own) * last + own * first, rest], dim)

    stride, strips = tile - overlap, []
    above: list[Tensor] = []
    for y in range(0, height, stride):
        row: list[Tensor] = []
        for j, x in enumerate(range(0, width, stride)):
            decoded = decode(latents[..., y : y + tile, x : x + tile])
            if above:
                decoded = blended(above[j], decoded, -2)
            if row:
                decoded = blended(row[-1], decoded, -1)
            row.append(decoded)
        kept = stride * upscale
        strips.append(torch.cat([decoded[..., :kept, :kept] for decoded in row], -1))
        above = row
    return torch.cat(strips, -2)
    ### END SOLUTION


def sliced_decode(decode: Callable[[Tensor], Tensor], latents: Tensor) -> Tensor:
    """10.4 · A batch decoded one picture at a time.

    decode: (b, C, h, w) to (b, 3, H, W). latents: (B, C, h, w). Returns (B, 3, H, W), the numbers
    of decode(latents). decode is called B times, each time with one picture, (1, C, h, w).

    Source: AutoencoderKL.enable_slicing and AutoencoderKL.decode.

    >>> calls = []
    >>> decode = lambda z: calls.append(len(z)) or 3 * z
    >>> sliced_decode(decode, torch.arange(2.0).reshape(2, 1, 1, 1)).flatten().tolist(), calls
    ([0.0, 3.0], [1, 1])
    """
    ### BEGIN SOLUTION
    return torch.cat([decode(picture) for picture in latents.split(1)])
    ### END SOLUTION


def offload_plan(
    sizes: Mapping[str, Sequence[int]], chain: str, calls: Sequence[str], capacity: int
) -> dict[str, dict[str, Any]]:
    """10.5 · What three ways of placing a pipeline's weights cost, in bytes.

    sizes: {component: [bytes of each of its leaf modules]}. chain: a model_cpu_offload_seq, such as
    "text_encoder->unet->vae"; it may name components that this pipeline lacks, and those are passed
    over. calls: the components in the order in which they are run, at least one; all of them are in
    sizes. capacity: bytes of the device. Returns {"none": …, "model": …,
    "sequential": …}, each {"peak": int, "to_device": int, "to_host": int, "fits": bool}: the most
    weights on the device at once, the bytes copied to it and back from it, and peak ≤ capacity.

    none: every component of sizes is loaded once and stays.
    model: all begin on the host. A component that is called sends its immediate predecessor in the
    chain back to the host, if that is on the device, and then loads itself, if it is not there.
    Components outside the chain have no predecessor and are nobody's: loaded at their first call,
    they stay. Nothing is sent back after the last call.
    sequential: in each call of a component its leaves are loaded one by one, and each is dropped
    before the next; the host kept its own copy, so nothing is copied back.

    Source: DiffusionPipeline.enable_model_cpu_offload and enable_sequential_cpu_offload;
    accelerate's cpu_offload_with_hook and cpu_offload.

    >>> plan = offload_plan({"a": [3, 4], "b": [5]}, "a->b", ["a", "b", "b"], 8)
    >>> plan["none"]
    {'peak': 12, 'to_device': 12, 'to_host': 0, 'fits': False}
    >>> plan["model"]
    {'peak': 7, 'to_device': 12, 'to_host': 7, 'fits': True}
    >>> plan["sequential"]
    {'peak': 5, 'to_device': 17, 'to_host': 0, 'fits': True}
    """
    ### BEGIN SOLUTION
    whole = {name: sum(leaves) for name, leaves in sizes.items()}
    present = [name for name in chain.split("->") if name in sizes]
    predecessor = dict(itertools.pairwise(reversed(present)))
    peak = to_device = to_host = 0
    resident: set[str] = set()
    for name in calls:
        leaving = predecessor.get(name)
        if leaving in resident:
            resident.remove(leaving)
            to_host += whole[leaving]
        if name not in resident:
            resident.add(name)
            to_device += whole[name]
        peak = max(peak, sum(whole[one] for one in resident))
    everything = sum(whole.values())
    plans = {
        "none": (everything, everything, 0),
        "model": (peak, to_device, to_host),
        "sequential": (
            max(leaf for name in calls for leaf in sizes[name]),
            sum(whole[name] for name in calls),
            0,
        ),
    }
    return {
        mode: {"peak": most, "to_device": up, "to_host": down, "fits": most <= capacity}
        for mode, (most, up, down) in plans.items()
    }
    ### END SOLUTION


def bytes_needed(
    parameter_counts: Mapping[str, int],
    dtype: torch.dtype,
    batch: int,
    height: int,
    width: int,
    config: Mapping[str, Any],
) -> dict[str, int]:
    """10.6 · The three large tensors of a text-to-image pipeline, in bytes, before it is run.

    parameter_counts: {component: number of parameters}. dtype: of everything. batch: pictures.
    height and width: of a picture, in pixels. config:
    "vae_scale": pixels for one latent pixel; "attention_downsample": latent pixels for one token,
    along a side, in the UNet's largest attention; "heads": there; "guidance": True if the UNet is
    called with 2·batch rows; "attention": "full", "sliced" or "chunked" (another name: ValueError);
    "slice_size" and "chunk", of which only the one for its kind of attention counts;
    "vae_block_out_channels": the VAE's, two or more. The sides are multiples of
    vae_scale·attention_downsample.

    Returns {"weights", "scores", "decoder"}, ints:
    weights: all parameters. scores: b·heads·n² for full, slice_size·n² for sliced,
    b·heads·n·chunk for chunked attention, with b = batch or 2·batch rows and n tokens. decoder:
    batch·C·height·width with C = vae_block_out_channels[1], what the decoder holds after its last
    upsampling. Each times the bytes of one number.

    Source: measured on UNet2DConditionModel with AttnProcessor and SlicedAttnProcessor, and on
    AutoencoderKL.decode.

    >>> config = {"vae_scale": 8, "attention_downsample": 1, "heads": 8, "guidance": True}
    >>> config |= {"attention": "full", "vae_block_out_channels": [128, 256, 512, 512]}
    >>> counts = {"unet": 859_520_964, "text_encoder": 123_060_480, "vae": 83_653_863}
    >>> bytes_needed(counts, torch.float16, 1, 512, 512, config)
    {'weights': 2132470614, 'scores': 536870912, 'decoder': 134217728}
    """
    ### BEGIN SOLUTION
    rows = 2 * batch if config["guidance"] else batch
    side = config["vae_scale"] * config["attention_downsample"]
    tokens = (height // side) * (width // side)
    match config["attention"]:
        case "full":
            scores = rows * config["heads"] * tokens**2
        case "sliced":
            scores = config["slice_size"] * tokens**2
        case "chunked":
            scores = rows * config["heads"] * tokens * config["chunk"]
        case other:
            raise ValueError(f"no attention is called {other!r}: full, sliced or chunked")
    numbers = {
        "weights": sum(parameter_counts.values()),
        "scores": scores,
        "decoder": batch * config["vae_block_out_channels"][1] * height * width,
    }
    return {name: count * dtype.itemsize for name, count in numbers.items()}
    ### END SOLUTION


def peak_owner(events: Sequence[tuple[str, str, int]]) -> tuple[str, int, str]:
    """10.7 · Who owns the peak, and what makes it smaller.

    events: (stage, kind, bytes alive), in the order of the run; kind is "weights", "scores",
    "activations" (of one picture) or "batch" (activations that are large because there are many
    pictures). Returns (stage, bytes, remedy) of the event with the most bytes, the first of equals.
    Remedies: "offload" for weights, "chunked attention" for scores, "tiled decode" for activations,
    "sliced decode" for batch. No events, or an event of another kind, wherever it is: ValueError.

    Source: any memory profile; torch.cuda.max_memory_allocated says how much, and not who.

    >>> peak_owner([("load", "weights", 5), ("denoise", "scores", 9), ("decode", "activations", 9)])
    ('denoise', 9, 'chunked attention')
    """
    ### BEGIN SOLUTION
    remedies = {
        "weights": "offload",
        "scores": "chunked attention",
        "activations": "tiled decode",
        "batch": "sliced decode",
    }
    unknown = [kind for _, kind, _ in events if kind not in remedies]
    if unknown or not events:
        raise ValueError(f"no event to judge, or of an unknown kind: {unknown}")
    stage, kind, size = max(events, key=lambda event: event[2])
    return stage, size, remedies[kind]
    ### END SOLUTION
