"""Lab 10: wrong answers that people really give, each the shortest code beside its sentence."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from infralens.examiner import misconception

PAGE = "handbook/memory.md"
SLICED = f"{PAGE}#sliced-attention"
CHUNKED = f"{PAGE}#chunked-attention"
TILED = f"{PAGE}#tiled-decoding"
BATCH = f"{PAGE}#sliced-decoding"
OFFLOAD = f"{PAGE}#offloading-weights"
BYTES = f"{PAGE}#counting-bytes"
OWNER = f"{PAGE}#who-owns-the-peak"

Fetch = Callable[[int], tuple[Tensor, Tensor]]
Decode = Callable[[Tensor], Tensor]
Sizes = Mapping[str, Sequence[int]]
Events = Sequence[tuple[str, str, int]]


# Compact twins of the right answers, for the wrong ones below to differ from in one place.


def refused(slice_size: int, most: int) -> None:
    if slice_size < 1 or slice_size > most:
        raise ValueError("slice_size")


def softened(q: Tensor, k: Tensor, scale: float, dim: int = -1) -> Tensor:
    """Attention weights of one slice."""
    return (q @ k.transpose(-1, -2) * scale).softmax(dim)


def in_slices(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    step: int,
    scale: float,
    dim: int = -1,
    count: int | None = None,
) -> Tensor:
    b, h, n, _ = q.shape
    out = torch.zeros(b * h, n, v.shape[-1], dtype=q.dtype)
    rows = [x.reshape(b * h, *x.shape[2:]) for x in (q, k, v)]
    for i in range(-(-b * h // step) if count is None else count):
        a, z, c = (x[i * step : i * step + step] for x in rows)
        out[i * step : i * step + step] = softened(a, z, scale, dim) @ c
    return out.reshape(b, h, n, -1)


def root(q: Tensor) -> float:
    return 1 / math.sqrt(q.shape[-1])


def weighed(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The weights of two parts, and the lse of both."""
    top = torch.maximum(a, b).clamp(min=-1e30)
    x, y = (a - top).exp(), (b - top).exp()
    total = x + y
    some = total.clamp(min=1e-30)
    return (x / some)[..., None], (y / some)[..., None], total.log() + top


def folded(q: Tensor, blocks: Fetch, order: Sequence[int], scale: float) -> tuple[Tensor, Tensor]:
    """Chunked attention over these blocks."""
    out, lse = q * 0, q[..., 0] * 0 - math.inf
    for j in order:
        k, v = blocks(j)
        s = q @ k.transpose(-1, -2) * scale
        x, y, lse = weighed(lse, s.logsumexp(-1))
        out = out * x + s.softmax(-1) @ v * y
    return out, lse


def online(
    q: Tensor,
    blocks: Fetch,
    n: int,
    *,
    start: float = -math.inf,
    rescaled: bool = True,
    only_first: bool = False,
    without_maximum: bool = False,
) -> tuple[Tensor, Tensor, Tensor]:
    """A running maximum, the sum of exp and the sum of exp·v."""
    top = torch.full_like(q[..., :1], start)
    total, acc = torch.zeros_like(top), torch.zeros_like(q)
    for j in range(n):
        k, v = blocks(j)
        s = q @ k.transpose(-1, -2) * root(q)
        new = torch.maximum(top, s.amax(-1, keepdim=True))
        if without_maximum:
            new = torch.zeros_like(top)
        elif only_first and j:
            new = top
        shrink = (top - new).exp() if rescaled and j + bool(start == 0) else 1.0
        p = (s - new).exp()
        total, acc, top = total * shrink + p.sum(-1, keepdim=True), acc * shrink + p @ v, new
    return top, total, acc


def ended(top: Tensor, total: Tensor, acc: Tensor) -> tuple[Tensor, Tensor]:
    return acc / total, (total.log() + top)[..., 0]


def pieces_of(
    decode: Decode, z: Tensor, tile: int, step: int, ends: tuple[int, int] | None = None
) -> list[list[Tensor]]:
    if step < 1:
        raise ValueError("no progress")
    h, w = ends or z.shape[-2:]
    return [
        [decode(z[:, :, y : y + tile, x : x + tile]) for x in range(0, w, step)]
        for y in range(0, h, step)
    ]


def steps(n: int) -> Tensor:
    return torch.arange(n) / max(n, 1)


def seam(
    a: Tensor, b: Tensor, most: int, dim: int, ramp: Callable[[int], Tensor] = steps
) -> Tensor:
    """b, whose first rows (columns) go over from the last ones of a."""
    n = min(most, a.shape[dim], b.shape[dim])
    t = ramp(n).to(b.dtype)
    t = t[:, None] if dim == 2 else t
    start = a.shape[dim] - n
    mixed = b.narrow(dim, 0, n) * t + a.narrow(dim, start, n) * (1 - t)
    return torch.cat([mixed, b.narrow(dim, n, b.shape[dim] - n)], dim)


def laid(grid: list[list[Tensor]], keep: int) -> Tensor:
    return torch.cat([torch.cat([p[:, :, :keep, :keep] for p in row], 3) for row in grid], 2)


def blended(
    grid: list[list[Tensor]], most: int, ramp: Callable[[int], Tensor] = steps
) -> list[list[Tensor]]:
    for i, row in enumerate(grid):
        for j in range(len(row)):
            if i:
                row[j] = seam(grid[i - 1][j], row[j], most, 2, ramp)
            if j:
                row[j] = seam(row[j - 1], row[j], most, 3, ramp)
    return grid


def fits_in(z: Tensor, tile: int, overlap: int) -> bool:
    if overlap >= tile:
        raise ValueError("no progress")
    return max(z.shape[-2:]) <= tile


def tiled(
    decode: Decode,
    z: Tensor,
    tile: int,
    overlap: int,
    up: int,
    ramp: Callable[[int], Tensor] = steps,
) -> Tensor:
    if fits_in(z, tile, overlap):
        return decode(z)
    step = tile - overlap
    return laid(blended(pieces_of(decode, z, tile, step), overlap * up, ramp), step * up)


def noted(peak: int, up: int, down: int, capacity: int) -> dict[str, Any]:
    return {"peak": peak, "to_device": up, "to_host": down, "fits": capacity >= peak}


def weights_of(sizes: Sizes) -> dict[str, int]:
    return {name: sum(sizes[name]) for name in sizes}


def before(chain: Sequence[str]) -> dict[str, str]:
    return {b: a for a, b in itertools.pairwise(chain)}


def links(chain: str, sizes: Sizes) -> dict[str, str]:
    return before([name for name in chain.split("->") if name in sizes])


def model_plan(
    sizes: Sizes,
    calls: Sequence[str],
    capacity: int,
    leaving: Callable[[str, set[str]], set[str]],
    *,
    reload: bool = False,
    load_first: bool = False,
    at_the_end: bool = False,
) -> dict[str, Any]:
    """`leaving` says who goes when a component is called, of those that are there."""
    bytes_of, there = weights_of(sizes), set[str]()
    most = up = down = 0
    for name in calls:
        gone = leaving(name, there)
        up += bytes_of[name] if reload or name not in there else 0
        down += sum(bytes_of[one] for one in gone)
        if load_first:
            most = max(most, sum(bytes_of[one] for one in there | {name}))
        there = (there - gone) | {name}
        most = max(most, sum(bytes_of[one] for one in there))
    down += sum(bytes_of[one] for one in there) if at_the_end else 0
    return noted(most, up, down, capacity)


def predecessors(chain: str, sizes: Sizes) -> Callable[[str, set[str]], set[str]]:
    link = links(chain, sizes)
    return lambda name, there: {link.get(name, "")} & there


def plans(
    sizes: Sizes, chain: str, calls: Sequence[str], capacity: int, **other: dict[str, Any]
) -> dict[str, Any]:
    everything = sum(weights_of(sizes).values())
    leaves = [leaf for name in calls for leaf in sizes[name]]
    right = {
        "none": noted(everything, everything, 0, capacity),
        "model": model_plan(sizes, calls, capacity, predecessors(chain, sizes)),
        "sequential": noted(max(leaves), sum(leaves), 0, capacity),
    }
    return right | other


def counted(
    counts: Mapping[str, int],
    dtype: torch.dtype,
    batch: int,
    height: int,
    width: int,
    config: Mapping[str, Any],
    **other: int,
) -> dict[str, int]:
    """The right bytes, with numbers of elements in `other` in place of some."""
    n = tokens_of(height, width, config)
    h, kind = config["heads"], config["attention"]
    rows = batch * (2 if config["guidance"] else 1)
    if kind == "full":
        scores = rows * h * n * n
    elif kind == "sliced":
        scores = config["slice_size"] * n * n
    elif kind == "chunked":
        scores = rows * h * n * config["chunk"]
    else:
        raise ValueError(kind)
    elements = {
        "weights": sum(counts.values()),
        "scores": scores,
        "decoder": batch * height * width * config["vae_block_out_channels"][1],
    }
    return {name: number * dtype.itemsize for name, number in (elements | other).items()}


def tokens_of(height: int, width: int, config: Mapping[str, Any]) -> int:
    return int(height * width // (config["vae_scale"] * config["attention_downsample"]) ** 2)


REMEDY = dict(
    zip(
        ("weights", "scores", "activations", "batch"),
        ("offload", "chunked attention", "tiled decode", "sliced decode"),
        strict=True,
    )
)


def known(events: Events) -> Events:
    if not events or any(kind not in REMEDY for _, kind, _ in events):
        raise ValueError("events")
    return events


def largest(events: Events) -> tuple[str, str, int]:
    """The first of the largest."""
    size = max(event[2] for event in events)
    return next(event for event in events if event[2] == size)


# 10.1


@misconception("10.1", "last-slice-dropped", replaces="sliced_attention", reads=SLICED)
def last_slice_dropped(q: Tensor, k: Tensor, v: Tensor, slice_size: int) -> Tensor:
    """The last slice was lost: the number of slices was rounded down. B·heads need not be a
    multiple of slice_size; round up, (B·heads − 1) // slice_size + 1."""
    refused(slice_size, q.shape[1])
    count = q.shape[0] * q.shape[1] // slice_size
    return in_slices(q, k, v, slice_size, root(q), count=count)


@misconception("10.1", "slice-size-not-refused", replaces="sliced_attention", reads=SLICED)
def not_refused(q: Tensor, k: Tensor, v: Tensor, slice_size: int) -> Tensor:
    """A slice_size above the number of heads was accepted. set_attention_slice refuses it: whoever
    asks for more than there are has another model in mind."""
    refused(slice_size, q.shape[0] * q.shape[1])
    return in_slices(q, k, v, slice_size, root(q))


@misconception("10.1", "slice-size-corrected", replaces="sliced_attention", reads=SLICED)
def corrected(q: Tensor, k: Tensor, v: Tensor, slice_size: int) -> Tensor:
    """An impossible slice_size was replaced by a possible one, in silence. Raise a ValueError, so
    that somebody notices."""
    return in_slices(q, k, v, max(1, min(slice_size, q.shape[1])), root(q))


@misconception("10.1", "too-many-maps-alive", replaces="sliced_attention", reads=SLICED)
def all_maps(q: Tensor, k: Tensor, v: Tensor, slice_size: int) -> Tensor:
    """The numbers are right, but more than slice_size maps of scores were alive at once. The peak
    is what slicing is for: lay batch and heads in one row and take slice_size of them at a time,
    neither all heads of a picture nor one head of all pictures."""
    refused(slice_size, q.shape[1])
    return softened(q, k, root(q)) @ v


@misconception("10.1", "divided-by-head-size", replaces="sliced_attention", reads=SLICED)
def by_size(q: Tensor, k: Tensor, v: Tensor, slice_size: int) -> Tensor:
    """The scores were divided by d. Divide by √d, the standard deviation of a sum of d products."""
    refused(slice_size, q.shape[1])
    return in_slices(q, k, v, slice_size, 1 / q.shape[-1])


@misconception("10.1", "scores-not-scaled", replaces="sliced_attention", reads=SLICED)
def not_scaled(q: Tensor, k: Tensor, v: Tensor, slice_size: int) -> Tensor:
    """The scores were not scaled. Slicing leaves the formula as it is, 1/√d included."""
    refused(slice_size, q.shape[1])
    return in_slices(q, k, v, slice_size, 1.0)


@misconception("10.1", "softmax-over-queries", replaces="sliced_attention", reads=SLICED)
def over_queries(q: Tensor, k: Tensor, v: Tensor, slice_size: int) -> Tensor:
    """The softmax ran over the queries. Each query shares its attention among the keys: the last
    axis of the scores."""
    refused(slice_size, q.shape[1])
    return in_slices(q, k, v, slice_size, root(q), dim=-2)


@misconception("10.1", "softmax-over-the-slice", replaces="sliced_attention", reads=SLICED)
def over_slice(q: Tensor, k: Tensor, v: Tensor, slice_size: int) -> Tensor:
    """The softmax ran over the maps of a slice. A slice is only a way to save memory: no number may
    depend on who else is in it."""
    refused(slice_size, q.shape[1])
    return in_slices(q, k, v, slice_size, root(q), dim=0)


@misconception("10.1", "batch-and-heads-exchanged", replaces="sliced_attention", reads=SLICED)
def exchanged(q: Tensor, k: Tensor, v: Tensor, slice_size: int) -> Tensor:
    """The row of maps was read back as heads by batch. It was laid out picture by picture, so it is
    read back picture by picture."""
    refused(slice_size, q.shape[1])
    out = in_slices(q, k, v, slice_size, root(q))
    b, h, n, d = out.shape
    return out.reshape(h, b, n, d).transpose(0, 1)


# 10.2


@misconception("10.2", "nothing-less-nothing", replaces="merge_attention", reads=CHUNKED)
def nothing_less_nothing(a: Tensor, lse_a: Tensor, b: Tensor, lse_b: Tensor) -> Any:
    """Where both parts are empty, −inf was taken from −inf, which is NaN. Such a query has seen no
    key yet: out 0, lse −inf."""
    both = torch.logaddexp(lse_a, lse_b)
    return (lse_a - both).exp()[..., None] * a + (lse_b - both).exp()[..., None] * b, both


@misconception("10.2", "parts-averaged", replaces="merge_attention", reads=CHUNKED)
def parts_averaged(a: Tensor, lse_a: Tensor, b: Tensor, lse_b: Tensor) -> Any:
    """The two outs were averaged. A part with more, or better fitting, keys has more weight: exp of
    its lse, over the sum of both."""
    return (a + b) / 2, weighed(lse_a, lse_b)[2]


@misconception("10.2", "parts-added", replaces="merge_attention", reads=CHUNKED)
def parts_added(a: Tensor, lse_a: Tensor, b: Tensor, lse_b: Tensor) -> Any:
    """The two outs were added. Each is a mean over its own keys already, so the weights of the two
    have to add up to 1."""
    return a + b, weighed(lse_a, lse_b)[2]


@misconception("10.2", "weights-exchanged", replaces="merge_attention", reads=CHUNKED)
def weights_exchanged(a: Tensor, lse_a: Tensor, b: Tensor, lse_b: Tensor) -> Any:
    """Each out got the other's weight."""
    x, y, lse = weighed(lse_a, lse_b)
    return y * a + x * b, lse


@misconception("10.2", "weighted-by-logarithms", replaces="merge_attention", reads=CHUNKED)
def by_logarithms(a: Tensor, lse_a: Tensor, b: Tensor, lse_b: Tensor) -> Any:
    """The outs were weighted with lse itself. lse is a logarithm; the weight is its exp."""
    total = (lse_a + lse_b)[..., None]
    mixed = (lse_a[..., None] * a + lse_b[..., None] * b) / total
    return mixed, weighed(lse_a, lse_b)[2]


@misconception("10.2", "logarithms-added", replaces="merge_attention", reads=CHUNKED)
def logarithms_added(a: Tensor, lse_a: Tensor, b: Tensor, lse_b: Tensor) -> Any:
    """The two lse were added. That is the logarithm of the product; what adds up are the sums of
    exp, so take log(exp a + exp b)."""
    x, y, _ = weighed(lse_a, lse_b)
    return x * a + y * b, lse_a + lse_b


@misconception("10.2", "logarithms-added-throughout", replaces="merge_attention", reads=CHUNKED)
def added_throughout(a: Tensor, lse_a: Tensor, b: Tensor, lse_b: Tensor) -> Any:
    """The two lse were added, and the weights were taken from that sum. What adds up are the sums
    of exp: lse = log(exp a + exp b), and the weights add up to 1."""
    both = lse_a + lse_b
    return (lse_a - both).exp()[..., None] * a + (lse_b - both).exp()[..., None] * b, both


@misconception("10.2", "larger-lse-kept", replaces="merge_attention", reads=CHUNKED)
def larger_kept(a: Tensor, lse_a: Tensor, b: Tensor, lse_b: Tensor) -> Any:
    """lse was set to the larger of the two. That is the maximum to take off before exp; the sum of
    both still has to be added: max + log(exp(a − max) + exp(b − max))."""
    x, y, _ = weighed(lse_a, lse_b)
    return x * a + y * b, torch.maximum(lse_a, lse_b)


@misconception("10.2", "lse-raised-as-it-is", replaces="merge_attention", reads=CHUNKED)
def raised(a: Tensor, lse_a: Tensor, b: Tensor, lse_b: Tensor) -> Any:
    """exp was taken of lse as it is. Beyond 88 that is infinite in float32, and below −104 it is 0:
    take the exp of differences only."""
    x, y = lse_a.exp()[..., None], lse_b.exp()[..., None]
    return (x * a + y * b) / (x + y), (x + y).log()[..., 0]


@misconception("10.2", "empty-part-counts", replaces="merge_attention", reads=CHUNKED)
def empty_counts(a: Tensor, lse_a: Tensor, b: Tensor, lse_b: Tensor) -> Any:
    """The −inf of an empty part was replaced by 0. exp(0) is 1, the weight of a key with score 0;
    an empty part weighs exp(−inf) = 0."""
    lse_a, lse_b = (x.nan_to_num(neginf=0.0) for x in (lse_a, lse_b))
    x, y, lse = weighed(lse_a, lse_b)
    return x * a + y * b, lse


@misconception("10.2", "mean-of-the-chunks", replaces="chunked_attention", reads=CHUNKED)
def mean_of_chunks(q: Tensor, blocks: Fetch, n: int) -> Any:
    """Each block got its own softmax, and the results were averaged. A softmax is over all keys:
    weigh each block with its sum of exp."""
    outs, sums = [], []
    for j in range(n):
        k, v = blocks(j)
        s = q @ k.transpose(-1, -2) * root(q)
        outs.append(s.softmax(-1) @ v)
        sums.append(s.logsumexp(-1))
    return torch.stack(outs).mean(0), torch.stack(sums).logsumexp(0)


@misconception("10.2", "first-maximum-kept", replaces="chunked_attention", reads=CHUNKED)
def first_maximum(q: Tensor, blocks: Fetch, n: int) -> Any:
    """The maximum of the first block was used for all of them. A later block may hold a score far
    above it, whose exp overflows."""
    return ended(*online(q, blocks, n, only_first=True))


@misconception("10.2", "maximum-begins-at-zero", replaces="chunked_attention", reads=CHUNKED)
def from_zero(q: Tensor, blocks: Fetch, n: int) -> Any:
    """The running maximum began at 0. When all scores are far below, each exp is 0, and 0 is
    divided by 0: begin at −inf."""
    return ended(*online(q, blocks, n, start=0.0))


@misconception("10.2", "scores-raised-as-they-are", replaces="chunked_attention", reads=CHUNKED)
def scores_raised(q: Tensor, blocks: Fetch, n: int) -> Any:
    """exp was taken of the scores as they are. Beyond 88 that is infinite in float32. Take the
    largest score seen so far off first."""
    return ended(*online(q, blocks, n, rescaled=False, without_maximum=True))


@misconception("10.2", "accumulator-not-rescaled", replaces="chunked_attention", reads=CHUNKED)
def not_rescaled(q: Tensor, blocks: Fetch, n: int) -> Any:
    """The maximum rose and what had been added up stayed as it was. Sums taken under an older
    maximum are multiplied by exp(old − new) before anything is added."""
    return ended(*online(q, blocks, n, rescaled=False))


@misconception("10.2", "maximum-left-out-of-lse", replaces="chunked_attention", reads=CHUNKED)
def without_top(q: Tensor, blocks: Fetch, n: int) -> Any:
    """lse is the logarithm of the running sum alone. The maximum that was taken off belongs to it:
    lse = maximum + log(sum)."""
    _, total, acc = online(q, blocks, n)
    return acc / total, total.log()[..., 0]


@misconception("10.2", "out-not-divided", replaces="chunked_attention", reads=CHUNKED)
def not_divided(q: Tensor, blocks: Fetch, n: int) -> Any:
    """The weighted sum was not divided by the sum of the weights. Once, after the last block, is
    enough."""
    top, total, acc = online(q, blocks, n)
    return acc, (total.log() + top)[..., 0]


@misconception("10.2", "last-block-lost", replaces="chunked_attention", reads=CHUNKED)
def last_lost(q: Tensor, blocks: Fetch, n: int) -> Any:
    """The last block was not fetched. Blocks are numbered from 0 to n − 1, and the last one counts
    even if it is a smaller one."""
    return folded(q, blocks, range(max(n - 1, 1)), root(q))


@misconception("10.2", "blocks-fetched-again", replaces="chunked_attention", reads=CHUNKED)
def fetched_again(q: Tensor, blocks: Fetch, n: int) -> Any:
    """Blocks were fetched more than once, say to look for the maximum first. Fetching is what
    costs time here: one pass is enough when sums are rescaled."""
    for j in range(n):
        blocks(j)
    return folded(q, blocks, range(n), root(q))


@misconception("10.2", "blocks-kept", replaces="chunked_attention", reads=CHUNKED)
def kept(q: Tensor, blocks: Fetch, n: int) -> Any:
    """The numbers are right, but the blocks were kept. Use each and let go of it: what has to stay
    is a running out and lse, whose size does not depend on the number of keys."""
    held = [blocks(j) for j in range(n)]
    k, v = (torch.cat(list(x), 2) for x in zip(*held, strict=True))
    s = q @ k.transpose(-1, -2) * root(q)
    return s.softmax(-1) @ v, s.logsumexp(-1)


@misconception("10.2", "chunks-not-scaled", replaces="chunked_attention", reads=CHUNKED)
def chunks_not_scaled(q: Tensor, blocks: Fetch, n: int) -> Any:
    """The scores were not divided by √d."""
    return folded(q, blocks, range(n), 1.0)


# 10.3


@misconception("10.3", "tiles-not-blended", replaces="tiled_decode", reads=TILED)
def not_blended(decode: Decode, z: Tensor, tile: int, overlap: int, up: int) -> Tensor:
    """The tiles were joined without blending. Each tile's decoder saw other neighbours, so hard
    edges show where they meet: fade from one to the next over the overlap."""
    if fits_in(z, tile, overlap):
        return decode(z)
    step = tile - overlap
    return laid(pieces_of(decode, z, tile, step), step * up)


@misconception("10.3", "blended-with-raw-neighbours", replaces="tiled_decode", reads=TILED)
def raw_neighbours(decode: Decode, z: Tensor, tile: int, overlap: int, up: int) -> Tensor:
    """Tiles were blended with their neighbours as they came from the decoder. The neighbour is
    taken as it is after its own blending, or a seam runs through the corners."""
    if fits_in(z, tile, overlap):
        return decode(z)
    step = tile - overlap
    raw = pieces_of(decode, z, tile, step)
    grid = [list(row) for row in raw]
    for i, row in enumerate(grid):
        for j in range(len(row)):
            if i:
                row[j] = seam(raw[i - 1][j], row[j], overlap * up, 2)
            if j:
                row[j] = seam(raw[i][j - 1], row[j], overlap * up, 3)
    return laid(grid, step * up)


@misconception("10.3", "blended-to-the-right-first", replaces="tiled_decode", reads=TILED)
def right_first(decode: Decode, z: Tensor, tile: int, overlap: int, up: int) -> Tensor:
    """The left neighbour was blended in before the upper one. In the corners the second blending
    has the last word: the upper one first, then the left one."""
    if fits_in(z, tile, overlap):
        return decode(z)
    step = tile - overlap
    grid = pieces_of(decode, z, tile, step)
    for i, row in enumerate(grid):
        for j in range(len(row)):
            if j:
                row[j] = seam(row[j - 1], row[j], overlap * up, 3)
            if i:
                row[j] = seam(grid[i - 1][j], row[j], overlap * up, 2)
    return laid(grid, step * up)


@misconception("10.3", "blend-counted-in-latents", replaces="tiled_decode", reads=TILED)
def blend_in_latents(decode: Decode, z: Tensor, tile: int, overlap: int, up: int) -> Tensor:
    """The blending covers `overlap` pixels. The overlap is counted in latent pixels, the blending
    happens behind the decoder: overlap·upscale pixels."""
    if fits_in(z, tile, overlap):
        return decode(z)
    step = tile - overlap
    return laid(blended(pieces_of(decode, z, tile, step), overlap), step * up)


@misconception("10.3", "crop-counted-in-latents", replaces="tiled_decode", reads=TILED)
def crop_in_latents(decode: Decode, z: Tensor, tile: int, overlap: int, up: int) -> Tensor:
    """Of each decoded tile tile − overlap pixels were kept. These are latent pixels; a decoded tile
    has upscale times as many."""
    if fits_in(z, tile, overlap):
        return decode(z)
    step = tile - overlap
    return laid(blended(pieces_of(decode, z, tile, step), overlap * up), step)


@misconception("10.3", "crop-of-the-whole-tile", replaces="tiled_decode", reads=TILED)
def whole_kept(decode: Decode, z: Tensor, tile: int, overlap: int, up: int) -> Tensor:
    """The decoded tiles were put together whole. They overlap: keep the first
    (tile − overlap)·upscale rows and columns of each."""
    if fits_in(z, tile, overlap):
        return decode(z)
    return laid(blended(pieces_of(decode, z, tile, tile - overlap), overlap * up), tile * up)


@misconception("10.3", "one-small-side-is-enough", replaces="tiled_decode", reads=TILED)
def one_small_side(decode: Decode, z: Tensor, tile: int, overlap: int, up: int) -> Tensor:
    """Latents with one side above tile were decoded in one piece. Only when neither side is above
    tile do they fit."""
    fits_in(z, tile, overlap)
    if min(z.shape[-2:]) <= tile:
        return decode(z)
    return tiled(decode, z, tile, overlap, up)


@misconception("10.3", "decoded-in-one-piece", replaces="tiled_decode", reads=TILED)
def in_one_piece(decode: Decode, z: Tensor, tile: int, overlap: int, up: int) -> Tensor:
    """The latents were decoded in one piece. That is what the memory does not allow, and it gives
    other numbers: a tiled picture is close to the whole one, not equal."""
    fits_in(z, tile, overlap)
    return decode(z)


@misconception("10.3", "small-latents-tiled", replaces="tiled_decode", reads=TILED)
def small_tiled(decode: Decode, z: Tensor, tile: int, overlap: int, up: int) -> Tensor:
    """Latents that fit in one tile were cut all the same. With no side above tile there is one
    plain call."""
    step = tile - overlap
    return laid(blended(pieces_of(decode, z, tile, step), overlap * up), step * up)


@misconception("10.3", "stops-when-covered", replaces="tiled_decode", reads=TILED)
def stops_when_covered(decode: Decode, z: Tensor, tile: int, overlap: int, up: int) -> Tensor:
    """The last tile was left out where the one before it reaches the edge already. Tiles begin at
    every multiple of tile − overlap inside the latents, as in the library, so that each is cropped
    alike; without it the picture is too small."""
    if fits_in(z, tile, overlap):
        return decode(z)
    step = tile - overlap
    ends = (max(z.shape[2] - overlap, 1), max(z.shape[3] - overlap, 1))
    return laid(blended(pieces_of(decode, z, tile, step, ends), overlap * up), step * up)


@misconception("10.3", "whole-tiles-only", replaces="tiled_decode", reads=TILED)
def whole_tiles_only(decode: Decode, z: Tensor, tile: int, overlap: int, up: int) -> Tensor:
    """Only tiles that fit whole were decoded, and the rest at the edges was skipped. Tiles begin at
    every multiple of tile − overlap inside the latents; the last ones are cut off at the edge."""
    if fits_in(z, tile, overlap):
        return decode(z)
    step = tile - overlap
    ends = (max(z.shape[2] - tile, 0) + 1, max(z.shape[3] - tile, 0) + 1)
    return laid(blended(pieces_of(decode, z, tile, step, ends), overlap * up), step * up)


@misconception("10.3", "last-tile-moved-back", replaces="tiled_decode", reads=TILED)
def moved_back(decode: Decode, z: Tensor, tile: int, overlap: int, up: int) -> Tensor:
    """The last tiles were moved back until they were whole. They begin where the others do, at a
    multiple of tile − overlap, and are cut off at the latents' edge: thinner, not moved."""
    if fits_in(z, tile, overlap):
        return decode(z)
    step, (h, w) = tile - overlap, z.shape[-2:]
    tops, lefts = ([min(y, max(n - tile, 0)) for y in range(0, n, step)] for n in (h, w))
    grid = [[decode(z[:, :, y : y + tile, x : x + tile]) for x in lefts] for y in tops]
    return laid(blended(grid, overlap * up), step * up)[:, :, : h * up, : w * up]


@misconception("10.3", "ramp-reaches-one", replaces="tiled_decode", reads=TILED)
def reaches_one(decode: Decode, z: Tensor, tile: int, overlap: int, up: int) -> Tensor:
    """The ramp ran from 0 to 1, both included. Row y of n has y/n of the new tile: 0 for the first
    row, (n − 1)/n for the last."""
    return tiled(decode, z, tile, overlap, up, lambda n: torch.linspace(0, 1, n))


@misconception("10.3", "ramp-from-the-middle", replaces="tiled_decode", reads=TILED)
def from_the_middle(decode: Decode, z: Tensor, tile: int, overlap: int, up: int) -> Tensor:
    """The ramp was taken at the rows' middles, (y + ½)/n. The library takes y/n."""
    return tiled(decode, z, tile, overlap, up, lambda n: (torch.arange(n) + 0.5) / max(n, 1))


@misconception("10.3", "ramp-reversed", replaces="tiled_decode", reads=TILED)
def reversed_ramp(decode: Decode, z: Tensor, tile: int, overlap: int, up: int) -> Tensor:
    """The ramp runs the wrong way. At the edge of the new tile its neighbour has all the weight,
    at the end of the overlap the new tile has it."""
    return tiled(decode, z, tile, overlap, up, lambda n: 1 - steps(n))


@misconception("10.3", "overlap-averaged", replaces="tiled_decode", reads=TILED)
def averaged(decode: Decode, z: Tensor, tile: int, overlap: int, up: int) -> Tensor:
    """The overlap is the mean of both tiles. That moves the hard edge instead of removing it: let
    the weights change from row to row."""
    return tiled(decode, z, tile, overlap, up, lambda n: torch.full((n,), 0.5))


@misconception("10.3", "ramp-not-shortened", replaces="tiled_decode", reads=TILED)
def not_shortened(decode: Decode, z: Tensor, tile: int, overlap: int, up: int) -> Tensor:
    """At the edge a tile may be thinner than the overlap, and there the ramp was broken off. It
    runs over n = min(overlap·upscale, both extents) rows, y/n, however small n is."""
    return tiled(decode, z, tile, overlap, up, lambda n: torch.arange(n) / max(overlap * up, 1))


@misconception("10.3", "overlap-as-a-share", replaces="tiled_decode", reads=TILED)
def as_a_share(decode: Decode, z: Tensor, tile: int, overlap: int, up: int) -> Tensor:
    """The overlap was turned into a share of the tile and back with int(), which truncates: 5 of 12
    give a stride of 6. diffusers does so itself; here the stride is tile − overlap."""
    if fits_in(z, tile, overlap):
        return decode(z)
    share = overlap / tile
    step, most = max(int(tile * (1 - share)), 1), int(tile * up * share)
    return laid(blended(pieces_of(decode, z, tile, step), most), tile * up - most)


@misconception("10.3", "refused-too-late", replaces="tiled_decode", reads=TILED)
def refused_too_late(decode: Decode, z: Tensor, tile: int, overlap: int, up: int) -> Tensor:
    """Latents that fit in one tile were decoded before the overlap was looked at. Settings that
    cannot work are refused for latents of any size."""
    if max(z.shape[-2:]) <= tile:
        return decode(z)
    return tiled(decode, z, tile, overlap, up)


@misconception("10.3", "whole-overlap-accepted", replaces="tiled_decode", reads=TILED)
def whole_overlap(decode: Decode, z: Tensor, tile: int, overlap: int, up: int) -> Tensor:
    """An overlap of a whole tile or more was accepted. The next tile would begin where this one
    does: ValueError, whatever the size of the latents."""
    return tiled(decode, z, tile, min(overlap, tile - 1), up)


# 10.4


@misconception("10.4", "decoded-in-one-call", replaces="sliced_decode", reads=BATCH)
def in_one_call(decode: Decode, latents: Tensor) -> Tensor:
    """The batch was decoded in one call. The numbers are the same, the peak is not: one picture in
    each call."""
    return decode(latents)


@misconception("10.4", "pictures-stacked", replaces="sliced_decode", reads=BATCH)
def stacked(decode: Decode, latents: Tensor) -> Tensor:
    """The pictures were stacked, which adds an axis. Each comes with its batch axis of 1: join them
    along that."""
    return torch.stack([decode(z[None]) for z in latents])


@misconception("10.4", "batch-axis-lost", replaces="sliced_decode", reads=BATCH)
def axis_lost(decode: Decode, latents: Tensor) -> Tensor:
    """A loop over a tensor gives its rows without the batch axis, and decode needs one, of length
    1: latents.split(1), or each row as z[None]."""
    return torch.cat([decode(z) for z in latents])


@misconception("10.4", "only-the-first-picture", replaces="sliced_decode", reads=BATCH)
def first_only(decode: Decode, latents: Tensor) -> Tensor:
    """Only one picture came back. Every row of the batch is decoded."""
    return decode(latents[:1])


@misconception("10.4", "first-picture-repeated", replaces="sliced_decode", reads=BATCH)
def first_repeated(decode: Decode, latents: Tensor) -> Tensor:
    """All pictures are the first one."""
    return torch.cat([decode(latents[:1]) for _ in latents])


@misconception("10.4", "pictures-in-reverse", replaces="sliced_decode", reads=BATCH)
def in_reverse(decode: Decode, latents: Tensor) -> Tensor:
    """The pictures came back in another order than their latents."""
    return torch.cat([decode(z[None]) for z in latents.flip(0)])


@misconception("10.4", "two-pictures-a-call", replaces="sliced_decode", reads=BATCH)
def two_at_a_time(decode: Decode, latents: Tensor) -> Tensor:
    """More than one picture was decoded in a call."""
    return torch.cat([decode(pair) for pair in torch.split(latents, 2)])


# 10.5


@misconception("10.5", "nothing-sent-back", replaces="offload_plan", reads=OFFLOAD)
def nothing_sent_back(sizes: Sizes, chain: str, calls: Sequence[str], capacity: int) -> Any:
    """With model offload nothing left the device. A component that is called first sends its
    predecessor in the chain back."""
    model = model_plan(sizes, calls, capacity, lambda name, there: set())
    return plans(sizes, chain, calls, capacity, model=model)


@misconception("10.5", "all-before-it-sent-back", replaces="offload_plan", reads=OFFLOAD)
def all_before(sizes: Sizes, chain: str, calls: Sequence[str], capacity: int) -> Any:
    """Everything earlier in the chain was sent back. A hook knows its immediate predecessor, no
    others."""
    order = [name for name in chain.split("->") if name in sizes]

    def earlier(name: str, there: set[str]) -> set[str]:
        return set(order[: order.index(name)]) & there if name in order else set()

    model = model_plan(sizes, calls, capacity, earlier)
    return plans(sizes, chain, calls, capacity, model=model)


@misconception("10.5", "everything-else-sent-back", replaces="offload_plan", reads=OFFLOAD)
def everything_else(sizes: Sizes, chain: str, calls: Sequence[str], capacity: int) -> Any:
    """With model offload everything else was sent back at each call, or whatever was called before.
    A hook knows one component, its immediate predecessor in the chain; the others stay where they
    are. In image to image the VAE, which is called first, so stays through all of the UNet's
    steps."""
    model = model_plan(sizes, calls, capacity, lambda name, there: there - {name})
    return plans(sizes, chain, calls, capacity, model=model)


@misconception("10.5", "missing-component-breaks-the-chain", replaces="offload_plan", reads=OFFLOAD)
def chain_broken(sizes: Sizes, chain: str, calls: Sequence[str], capacity: int) -> Any:
    """A component of the chain that this pipeline lacks was taken as a predecessor, so nobody was
    sent back there. The chain is that of the components that exist."""
    link = before(chain.split("->"))
    model = model_plan(sizes, calls, capacity, lambda name, there: {link.get(name, "")} & there)
    return plans(sizes, chain, calls, capacity, model=model)


@misconception("10.5", "outsider-sends-back", replaces="offload_plan", reads=OFFLOAD)
def outsider(sizes: Sizes, chain: str, calls: Sequence[str], capacity: int) -> Any:
    """A component outside the chain was hung on its end. It sends nobody back and is sent back by
    nobody: a ControlNet, called in turns with the UNet, would travel at every step."""
    inside = [name for name in chain.split("->") if name in sizes]
    link = before([*inside, *(name for name in sizes if name not in inside)])
    model = model_plan(sizes, calls, capacity, lambda name, there: {link.get(name, "")} & there)
    return plans(sizes, chain, calls, capacity, model=model)


@misconception("10.5", "loaded-at-every-call", replaces="offload_plan", reads=OFFLOAD)
def every_call(sizes: Sizes, chain: str, calls: Sequence[str], capacity: int) -> Any:
    """With model offload a component was loaded again at each call. It stays until its successor is
    called: the UNet travels once for all its steps."""
    model = model_plan(sizes, calls, capacity, predecessors(chain, sizes), reload=True)
    return plans(sizes, chain, calls, capacity, model=model)


@misconception("10.5", "loaded-before-sending-back", replaces="offload_plan", reads=OFFLOAD)
def load_first(sizes: Sizes, chain: str, calls: Sequence[str], capacity: int) -> Any:
    """The predecessor was sent back after the new component had been loaded, so both were counted
    at once. It leaves first."""
    model = model_plan(sizes, calls, capacity, predecessors(chain, sizes), load_first=True)
    return plans(sizes, chain, calls, capacity, model=model)


@misconception("10.5", "sent-back-at-the-end", replaces="offload_plan", reads=OFFLOAD)
def at_the_end(sizes: Sizes, chain: str, calls: Sequence[str], capacity: int) -> Any:
    """After the last call the rest was sent back as well. No hook does that; the pipeline does it
    at the end of a whole run (maybe_free_model_hooks), which is not part of this plan."""
    model = model_plan(sizes, calls, capacity, predecessors(chain, sizes), at_the_end=True)
    return plans(sizes, chain, calls, capacity, model=model)


@misconception("10.5", "only-called-ones-loaded", replaces="offload_plan", reads=OFFLOAD)
def only_called(sizes: Sizes, chain: str, calls: Sequence[str], capacity: int) -> Any:
    """Without offload only what is called was loaded. pipe.to("cuda") moves every component,
    whether it will be called or not."""
    bytes_of = weights_of(sizes)
    total = sum(bytes_of[name] for name in set(calls))
    return plans(sizes, chain, calls, capacity, none=noted(total, total, 0, capacity))


@misconception("10.5", "components-for-leaves", replaces="offload_plan", reads=OFFLOAD)
def components(sizes: Sizes, chain: str, calls: Sequence[str], capacity: int) -> Any:
    """For sequential offload the largest component was taken as the peak. It moves leaf by leaf:
    the peak is the largest single one."""
    bytes_of = weights_of(sizes)
    loads = [bytes_of[name] for name in calls]
    sequential = noted(max(loads), sum(loads), 0, capacity)
    return plans(sizes, chain, calls, capacity, sequential=sequential)


@misconception("10.5", "leaves-copied-back", replaces="offload_plan", reads=OFFLOAD)
def copied_back(sizes: Sizes, chain: str, calls: Sequence[str], capacity: int) -> Any:
    """With sequential offload the leaves were copied back. The host kept its copy and weights do
    not change: the device's is dropped."""
    leaves = [leaf for name in calls for leaf in sizes[name]]
    sequential = noted(max(leaves), sum(leaves), sum(leaves), capacity)
    return plans(sizes, chain, calls, capacity, sequential=sequential)


@misconception("10.5", "leaves-loaded-once", replaces="offload_plan", reads=OFFLOAD)
def loaded_once(sizes: Sizes, chain: str, calls: Sequence[str], capacity: int) -> Any:
    """With sequential offload each component was loaded once. Nothing stays, so every call loads
    every leaf again: at 50 steps the UNet travels 50 times."""
    leaves = [leaf for name in dict.fromkeys(calls) for leaf in sizes[name]]
    sequential = noted(max(leaves), sum(leaves), 0, capacity)
    return plans(sizes, chain, calls, capacity, sequential=sequential)


@misconception("10.5", "leaves-that-are-not-called", replaces="offload_plan", reads=OFFLOAD)
def not_called(sizes: Sizes, chain: str, calls: Sequence[str], capacity: int) -> Any:
    """The sequential peak was taken over all components. One that is never called is never
    loaded."""
    leaves = [leaf for name in calls for leaf in sizes[name]]
    most = max(max(sizes[name]) for name in sizes)
    return plans(sizes, chain, calls, capacity, sequential=noted(most, sum(leaves), 0, capacity))


@misconception("10.5", "full-device-does-not-fit", replaces="offload_plan", reads=OFFLOAD)
def not_quite(sizes: Sizes, chain: str, calls: Sequence[str], capacity: int) -> Any:
    """A peak that equals the capacity was said not to fit. It does, to the last byte."""
    return plans(sizes, chain, calls, capacity - 1)


# 10.6


@misconception("10.6", "guidance-not-counted", replaces="bytes_needed", reads=BYTES)
def guidance_not_counted(
    counts: Any, dtype: Any, batch: int, height: int, width: int, config: Any
) -> Any:
    """Guidance was not counted. The UNet then sees both halves at once: 2·batch rows of scores."""
    return counted(counts, dtype, batch, height, width, {**config, "guidance": False})


@misconception("10.6", "guidance-always", replaces="bytes_needed", reads=BYTES)
def guidance_always(
    counts: Any, dtype: Any, batch: int, height: int, width: int, config: Any
) -> Any:
    """The scores were doubled without guidance. There is one half then."""
    return counted(counts, dtype, batch, height, width, {**config, "guidance": True})


@misconception("10.6", "decoder-under-guidance", replaces="bytes_needed", reads=BYTES)
def decoder_doubled(
    counts: Any, dtype: Any, batch: int, height: int, width: int, config: Any
) -> Any:
    """The decoder's tensor was doubled under guidance. The halves were combined in every step; what
    is decoded are `batch` latents."""
    rows = batch * (2 if config["guidance"] else 1)
    decoder = rows * config["vae_block_out_channels"][1] * height * width
    return counted(counts, dtype, batch, height, width, config, decoder=decoder)


@misconception("10.6", "pixels-as-tokens", replaces="bytes_needed", reads=BYTES)
def pixels_as_tokens(
    counts: Any, dtype: Any, batch: int, height: int, width: int, config: Any
) -> Any:
    """Each pixel was a token. The UNet works on latents, whose sides are smaller by the VAE's
    factor."""
    right = counted(counts, dtype, batch, height, width, config)
    inside = counted(counts, dtype, batch, height, width, {**config, "vae_scale": 1})
    return right | {"scores": inside["scores"]}


@misconception("10.6", "attention-at-full-latents", replaces="bytes_needed", reads=BYTES)
def at_full_latents(
    counts: Any, dtype: Any, batch: int, height: int, width: int, config: Any
) -> Any:
    """Attention was put at the size of the latents. The first level that has attention may lie one
    downsampling further in: attention_downsample."""
    return counted(counts, dtype, batch, height, width, {**config, "attention_downsample": 1})


@misconception("10.6", "one-map-of-scores", replaces="bytes_needed", reads=BYTES)
def one_map(counts: Any, dtype: Any, batch: int, height: int, width: int, config: Any) -> Any:
    """The heads were not counted. Each head has its own scores."""
    right = counted(counts, dtype, batch, height, width, config)
    if config["attention"] != "sliced":
        right["scores"] //= config["heads"]
    return right


@misconception("10.6", "tokens-not-squared", replaces="bytes_needed", reads=BYTES)
def not_squared(counts: Any, dtype: Any, batch: int, height: int, width: int, config: Any) -> Any:
    """The scores grow with n. Each token looks at each token: n²."""
    right = counted(counts, dtype, batch, height, width, config)
    if config["attention"] != "chunked":
        right["scores"] //= tokens_of(height, width, config)
    return right


@misconception("10.6", "slice-of-each-picture", replaces="bytes_needed", reads=BYTES)
def slice_of_each(counts: Any, dtype: Any, batch: int, height: int, width: int, config: Any) -> Any:
    """A slice was counted once for each row of the batch. slice_size maps are alive in all: the
    slices run over batch and heads together."""
    right = counted(counts, dtype, batch, height, width, config)
    if config["attention"] == "sliced":
        right["scores"] *= batch * (2 if config["guidance"] else 1)
    return right


@misconception("10.6", "heads-left-over-from-slicing", replaces="bytes_needed", reads=BYTES)
def share_of_heads(
    counts: Any, dtype: Any, batch: int, height: int, width: int, config: Any
) -> Any:
    """slice_size was read as the number of slices. It is how many maps are in one."""
    if config["attention"] != "sliced":
        return counted(counts, dtype, batch, height, width, config)
    rows = batch * (2 if config["guidance"] else 1)
    scores = rows * config["heads"] * tokens_of(height, width, config) ** 2
    scores = -(-scores // config["slice_size"])
    return counted(counts, dtype, batch, height, width, config, scores=scores)


@misconception("10.6", "chunk-by-chunk-scores", replaces="bytes_needed", reads=BYTES)
def chunk_squared(counts: Any, dtype: Any, batch: int, height: int, width: int, config: Any) -> Any:
    """Chunked scores were counted as chunk². Only the keys come in chunks here; all n queries meet
    each of them: n·chunk."""
    if config["attention"] != "chunked":
        return counted(counts, dtype, batch, height, width, config)
    rows = batch * (2 if config["guidance"] else 1)
    scores = rows * config["heads"] * config["chunk"] ** 2
    return counted(counts, dtype, batch, height, width, config, scores=scores)


@misconception("10.6", "always-float32", replaces="bytes_needed", reads=BYTES)
def always_float32(
    counts: Any, dtype: Any, batch: int, height: int, width: int, config: Any
) -> Any:
    """Every number was given 4 bytes. float16 and bfloat16 have 2: the cheapest saving of all."""
    return counted(counts, torch.float32, batch, height, width, config)


@misconception("10.6", "bits-for-bytes", replaces="bytes_needed", reads=BYTES)
def bits(counts: Any, dtype: Any, batch: int, height: int, width: int, config: Any) -> Any:
    """Bits were counted. Eight of them are a byte."""
    right = counted(counts, dtype, batch, height, width, config)
    return {name: 8 * count for name, count in right.items()}


@misconception("10.6", "decoder-with-first-channels", replaces="bytes_needed", reads=BYTES)
def first_channels(
    counts: Any, dtype: Any, batch: int, height: int, width: int, config: Any
) -> Any:
    """The decoder's last block was given block_out_channels[0]. That is what it puts out; what
    comes in at full size, from the upsampling before it, has block_out_channels[1]."""
    decoder = batch * config["vae_block_out_channels"][0] * height * width
    return counted(counts, dtype, batch, height, width, config, decoder=decoder)


@misconception("10.6", "decoder-with-last-channels", replaces="bytes_needed", reads=BYTES)
def last_channels(counts: Any, dtype: Any, batch: int, height: int, width: int, config: Any) -> Any:
    """The decoder was given its most channels at full size. Those are at the size of the latents;
    each upsampling but the first leaves fewer of them."""
    decoder = batch * config["vae_block_out_channels"][-1] * height * width
    return counted(counts, dtype, batch, height, width, config, decoder=decoder)


@misconception("10.6", "decoder-of-pixels", replaces="bytes_needed", reads=BYTES)
def of_pixels(counts: Any, dtype: Any, batch: int, height: int, width: int, config: Any) -> Any:
    """The decoder's tensor was counted as the picture, three channels. On the way it has many
    more."""
    return counted(counts, dtype, batch, height, width, config, decoder=batch * 3 * height * width)


@misconception("10.6", "weights-of-the-largest", replaces="bytes_needed", reads=BYTES)
def weights_of_largest(
    counts: Any, dtype: Any, batch: int, height: int, width: int, config: Any
) -> Any:
    """Only the largest component's weights were counted. Without offload all of them are there."""
    most = max(counts.values())
    return counted(counts, dtype, batch, height, width, config, weights=most)


@misconception("10.6", "weights-times-batch", replaces="bytes_needed", reads=BYTES)
def weights_times_batch(
    counts: Any, dtype: Any, batch: int, height: int, width: int, config: Any
) -> Any:
    """The weights were multiplied by the batch. All pictures share them: this is why batching
    pays."""
    total = batch * sum(counts.values())
    return counted(counts, dtype, batch, height, width, config, weights=total)


@misconception("10.6", "unknown-attention-is-full", replaces="bytes_needed", reads=BYTES)
def unknown_is_full(
    counts: Any, dtype: Any, batch: int, height: int, width: int, config: Any
) -> Any:
    """An unknown kind of attention was counted as full. A name nobody knows is most likely a typing
    mistake: ValueError."""
    kind = config["attention"]
    kind = kind if kind in ("sliced", "chunked") else "full"
    return counted(counts, dtype, batch, height, width, {**config, "attention": kind})


# 10.7


@misconception("10.7", "last-of-equal-peaks", replaces="peak_owner", reads=OWNER)
def last_of_equals(events: Events) -> Any:
    """Of two equal peaks the later one was named. The first one owns it."""
    stage, kind, size = largest(list(known(events))[::-1])
    return stage, size, REMEDY[kind]


@misconception("10.7", "bytes-added-by-stage", replaces="peak_owner", reads=OWNER)
def by_stage(events: Events) -> Any:
    """The bytes of a stage were added up. What is alive at one moment counts, and the moments of a
    stage follow one another."""
    sums: dict[str, int] = {}
    for stage, _, size in known(events):
        sums[stage] = sums.get(stage, 0) + size
    owner = max(sums, key=lambda stage: sums[stage])
    _, kind, _ = largest([event for event in events if event[0] == owner])
    return owner, sums[owner], REMEDY[kind]


@misconception("10.7", "bytes-added-by-kind", replaces="peak_owner", reads=OWNER)
def by_kind(events: Events) -> Any:
    """The bytes of a kind were added up. The peak is a single moment."""
    sums: dict[str, int] = {}
    for _, kind, size in known(events):
        sums[kind] = sums.get(kind, 0) + size
    owner = max(sums, key=lambda kind: sums[kind])
    stage, _, _ = largest([event for event in events if event[1] == owner])
    return stage, sums[owner], REMEDY[owner]


@misconception("10.7", "tiling-and-slicing-exchanged", replaces="peak_owner", reads=OWNER)
def remedies_exchanged(events: Events) -> Any:
    """Tiling and slicing of the decoder changed places. Slicing takes pictures one by one and does
    nothing for a single large one; tiling cuts the picture itself."""
    stage, kind, size = largest(known(events))
    swapped = {"activations": REMEDY["batch"], "batch": REMEDY["activations"]}
    return stage, size, (REMEDY | swapped)[kind]


@misconception("10.7", "offload-for-everything", replaces="peak_owner", reads=OWNER)
def offload_always(events: Events) -> Any:
    """Offload was the remedy for what is no weight. It moves weights; scores and activations are
    made anew in every call."""
    stage, _, size = largest(known(events))
    return stage, size, "offload"


@misconception("10.7", "tiling-for-scores", replaces="peak_owner", reads=OWNER)
def tiling_for_scores(events: Events) -> Any:
    """The remedy belongs to another stage. Scores are made in attention: take the keys in
    chunks."""
    stage, kind, size = largest(known(events))
    return stage, size, (REMEDY | {"scores": "tiled decode"})[kind]


@misconception("10.7", "kind-in-place-of-stage", replaces="peak_owner", reads=OWNER)
def kind_for_stage(events: Events) -> Any:
    """The kind was returned where the stage belongs. (stage, bytes, remedy)."""
    _, kind, size = largest(known(events))
    return kind, size, REMEDY[kind]


@misconception("10.7", "smallest-event", replaces="peak_owner", reads=OWNER)
def smallest(events: Events) -> Any:
    """The event with the fewest bytes was named."""
    stage, kind, size = min(known(events), key=lambda event: event[2])
    return stage, size, REMEDY[kind]


@misconception("10.7", "only-the-owner-is-checked", replaces="peak_owner", reads=OWNER)
def only_the_owner(events: Events) -> Any:
    """An event of an unknown kind passed because it was a small one. A record that holds it is not
    one of ours: ValueError, wherever it stands."""
    stage, kind, size = largest(events)
    if kind not in REMEDY:
        raise ValueError(kind)
    return stage, size, REMEDY[kind]


@misconception("10.7", "unknown-kinds-passed-over", replaces="peak_owner", reads=OWNER)
def passed_over(events: Events) -> Any:
    """Events of an unknown kind were passed over. Then the largest of all may be among them: raise
    a ValueError."""
    stage, kind, size = largest([event for event in events if event[1] in REMEDY])
    return stage, size, REMEDY[kind]


@misconception("10.7", "no-events-no-owner", replaces="peak_owner", reads=OWNER)
def no_owner(events: Events) -> Any:
    """Without events None came back. Nothing can be said then: ValueError."""
    if not events:
        return None
    stage, kind, size = largest(known(events))
    return stage, size, REMEDY[kind]
