"""Lab 06 · Video latents: time is an axis, and each layer decides who may look along it.

Goal: follow a video's frames through the sizes of its latents, the folds of its layers, the masks
and positions of its attention, and what holds a first frame still or joins windows of a clip too
long.

Symbols: B = videos, C = channels, F = frames, H, W = height and width, N = F·H·W tokens. A video
is (B, C, F, H, W), latents likewise. Tokens stand with the frame slowest and the column fastest.

Given, and graded nowhere: `fitting_frames`, the number of frames that a pipeline takes, and
`rotate`, which turns queries or keys by the tables of 6.4. Lab 03 of this track asks for both.

`diffusers` cannot be imported in this file: what is asked is written in Python and torch.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor


def fitting_frames(frames: int, ratio: int) -> int:
    """Given: the number of frames, 1 + ratio·k, that a pipeline takes in place of this one.

    >>> fitting_frames(9, 4), fitting_frames(11, 4), fitting_frames(12, 4)
    (9, 9, 13)
    """
    groups, rest = divmod(frames, ratio)
    return frames if rest == 1 % ratio else groups * ratio + 1


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Given: x (B, N, heads, head_dim) with each pair of neighbours turned by the tables of 6.4.

    >>> x, cos, sin = torch.tensor([[[[1.0, 2.0]]]]), torch.zeros(1, 2), torch.ones(1, 2)
    >>> rotate(x, cos, sin).flatten().tolist()
    [-2.0, 1.0]
    """
    turns = torch.complex(cos[:, ::2], sin[:, ::2])[:, None]  # (N, 1, head_dim / 2)
    pairs = torch.view_as_complex(x.float().unflatten(-1, (-1, 2)))
    return torch.view_as_real(pairs * turns).flatten(-2).to(x.dtype)


def video_shape(
    config: Mapping[str, int], batch: int, frames: int, height: int, width: int
) -> dict[str, Any]:
    """6.1 · What a request becomes: its latents, its tokens, and the frames that come back.

    config: {"channels": C of the latents, "temporal": r, "spatial": s, "patch": p}. The VAE makes
    a latent frame of the first frame alone, and then one of every r frames; it shrinks both sides
    by s. The transformer cuts each latent frame into patches of p × p, a token each. Frames that
    are not 1 + r·k are replaced first, by what fitting_frames gives.

    Returns {"latents": [B, C, F′, h, w], "tokens": how many of one video, "frames": how many the
    VAE will decode the latents to}, all ints. frames below 1, or a side that is no multiple of
    p·s: ValueError.

    Source: WanPipeline's call and prepare_latents.

    >>> config = {"channels": 16, "temporal": 4, "spatial": 8, "patch": 2}
    >>> video_shape(config, 1, 81, 480, 832)
    {'latents': [1, 16, 21, 60, 104], 'tokens': 32760, 'frames': 81}
    """
    raise NotImplementedError("TODO 6.1: video_shape")


def to_spatial(video: Tensor) -> Tensor:
    """6.2 · (B, C, F, H, W) as a layer that looks at one frame takes it: (B·F, C, H, W).

    The frames of one video stand together, in their order. A view or a copy, in any dtype.

    Source: UNetMotionModel's forward.

    >>> video = torch.arange(8).reshape(1, 2, 4, 1, 1)  # two channels, four frames
    >>> to_spatial(video).flatten(1).tolist()
    [[0, 4], [1, 5], [2, 6], [3, 7]]
    """
    raise NotImplementedError("TODO 6.2: to_spatial")


def from_spatial(x: Tensor, batch: int) -> Tensor:
    """6.2 · What undoes to_spatial: (B·F, C, H, W) to (B, C, F, H, W).

    batch: B, which the shape does not show. Where B does not divide the first axis: ValueError.

    Source: AnimateDiffTransformer3D's forward.

    >>> from_spatial(torch.tensor([[0, 4], [1, 5], [2, 6]])[..., None, None], 1).flatten(2).tolist()
    [[[0, 1, 2], [4, 5, 6]]]
    """
    raise NotImplementedError("TODO 6.2: from_spatial")


def to_temporal(video: Tensor) -> Tensor:
    """6.2 · (B, C, F, H, W) as a layer that looks along time takes it: (B·H·W, F, C).

    Each pixel is a row of its own, a sequence of F tokens with C features. Rows go with the video
    slowest and the column fastest. A view or a copy, in any dtype.

    Source: AnimateDiffTransformer3D's forward.

    >>> video = torch.arange(12).reshape(1, 2, 3, 1, 2)  # two channels, three frames, two pixels
    >>> to_temporal(video)[1].tolist()
    [[1, 7], [3, 9], [5, 11]]
    """
    raise NotImplementedError("TODO 6.2: to_temporal")


def from_temporal(x: Tensor, batch: int, height: int, width: int) -> Tensor:
    """6.2 · What undoes to_temporal: (B·H·W, F, C) to (B, C, F, H, W).

    A first axis that is not as long as batch·height·width: ValueError.

    Source: AnimateDiffTransformer3D's forward.

    >>> x = torch.arange(12).reshape(2, 3, 2)  # two pixels, three frames, two channels
    >>> from_temporal(x, 1, 1, 2)[0, 0].flatten(1).tolist()  # the first channel, frame by frame
    [[0, 6], [2, 8], [4, 10]]
    """
    raise NotImplementedError("TODO 6.2: from_temporal")


def attention_mask(kind: str, frames: int, height: int, width: int, block: int) -> Tensor:
    """6.3 · Who may look at whom: (N, N) bool, the row looks, the column is looked at.

    kind, for two tokens:
    "full"      always
    "spatial"   when both are of the same frame
    "temporal"  when both are of the same pixel
    "causal"    frames stand in blocks of `block`, 0 … block − 1 and so on: a token may look at all
                of its own block and at all of earlier ones
    Another kind, or, when it is causal, a number of frames that block does not divide:
    ValueError. The other kinds pass `block` over.

    Source: prepare_causal_attention_mask of HunyuanVideo's VAE; num_frame_per_block of
    SkyReels-V2.

    >>> attention_mask("causal", 2, 1, 2, 1).int().tolist()
    [[1, 1, 0, 0], [1, 1, 0, 0], [1, 1, 1, 1], [1, 1, 1, 1]]
    """
    raise NotImplementedError("TODO 6.3: attention_mask")


def rope_3d(
    frames: int, height: int, width: int, head_dim: int, theta: float, start: int
) -> tuple[Tensor, Tensor]:
    """6.4 · (cos, sin) of the angles for every token of a clip, both (N, head_dim) float32.

    A head's features are split over three axes: 2·(head_dim // 6) for the rows, as many for the
    columns, and the rest for the frames; they stand in the order frame, row, column. Of an axis
    with d features pair i, i = 0 … d/2 − 1, turns by position · theta^(−2i/d), and its angle
    fills two neighbouring places. Rows and columns count from 0, frames from `start`: a clip may
    be a window of a longer one. head_dim odd or below 6: ValueError.

    Source: WanRotaryPosEmbed.

    >>> cos, sin = rope_3d(1, 2, 1, 8, 100.0, 3)  # 4 features for the frame, 2, 2; two tokens
    >>> sin.mul(1000).round().int().tolist()
    [[141, 141, 296, 296, 0, 0, 0, 0], [141, 141, 296, 296, 841, 841, 0, 0]]
    """
    raise NotImplementedError("TODO 6.4: rope_3d")


def image_condition(
    encode: Callable[[Tensor], Tensor],
    first: Tensor,
    last: Tensor | None,
    frames: int,
    mean: Sequence[float],
    std: Sequence[float],
    ratio: int,
) -> Tensor:
    """6.5 · What an image-to-video model is shown beside its noise: (B, ratio + C, F′, h, w).

    first, last: (B, 3, H, W) in [−1, 1], the pictures of frame 0 and of frame frames − 1; last
    may be None. encode(video) gives the latents (B, C, F′, h, w) of a video (B, 3, F, H, W): it
    is called once, with the pictures in their places and zeros in all other frames. Channel c of
    them becomes (z − mean[c]) / std[c].

    In front of these C channels stand `ratio` channels of a mask. It begins with a number for
    each frame of the *video*, 1 where the picture is known and 0 elsewhere, the same at all
    pixels; the first number is repeated `ratio` times; then groups of `ratio` numbers, in order,
    become the `ratio` channels of one latent frame each. The answer has the dtype of the latents.

    A number of frames that is not 1 + ratio·k, or a last picture with fewer than two frames:
    ValueError.

    Source: WanImageToVideoPipeline.prepare_latents.

    >>> condition = image_condition(
    ...     lambda video: torch.zeros(1, 2, 3, 1, 1),  # a VAE of two channels, time by four
    ...     torch.ones(1, 3, 8, 8), torch.ones(1, 3, 8, 8), 9, [1.0, 0.0], [1.0, 1.0], 4,
    ... )
    >>> condition[0, :, :, 0, 0].T.int().tolist()  # frame by frame: four of the mask, two more
    [[1, 1, 1, 1, -1, 0], [0, 0, 0, 0, -1, 0], [0, 0, 0, 1, -1, 0]]
    """
    raise NotImplementedError("TODO 6.5: image_condition")


def first_frame_loop(
    denoiser: Callable[[Tensor, Tensor], Tensor], scheduler: Any, latents: Tensor, first: Tensor
) -> Tensor:
    """6.6 · Latents after the whole run, in which the first frame stays the given picture.

    latents: (B, C, F, h, w) of noise; what is in their frame 0 does not matter. first: (B, C, 1,
    h, w), latents of the picture. scheduler: a FlowMatchEulerDiscreteScheduler whose timesteps
    are set: use scheduler.timesteps and scheduler.step(prediction, t, sample).prev_sample.
    denoiser(x, t): the prediction for x (B, C, F, h, w); t (B, F) float32 says of *every frame*
    at which timestep it is: 0 where the picture is known, the scheduler's t elsewhere. One call
    of the denoiser and one step a timestep. Frame 0 is `first` in every x and in the result.

    Source: LTXImageToVideoPipeline's call.

    >>> class Halving:
    ...     timesteps = torch.tensor([1000.0, 500.0])
    ...     def step(self, prediction, t, sample):
    ...         self.prev_sample = sample / 2 + prediction
    ...         return self
    >>> first, noise = torch.full((1, 1, 1, 1, 1), 9.0), torch.full((1, 1, 3, 1, 1), 4.0)
    >>> def denoiser(x, t):
    ...     return (t / 1000)[:, None, :, None, None].expand_as(x)
    >>> first_frame_loop(denoiser, Halving(), noise, first).flatten().tolist()
    [9.0, 2.0, 2.0]
    """
    raise NotImplementedError("TODO 6.6: first_frame_loop")


def windows(frames: int, length: int, stride: int) -> list[tuple[int, int]]:
    """6.7 · The windows in which a long clip is looked at: [(start, end), …], end left out.

    Each has `length` frames. They start at 0, stride, 2·stride … as long as they fit. Where the
    last of them ends before the clip does, one more ends with it. frames below length, stride
    below 1 or above length: ValueError.

    Source: FreeNoiseTransformerBlock's _get_frame_indices and forward.

    >>> windows(10, 6, 4), windows(11, 6, 4)
    ([(0, 6), (4, 10)], [(0, 6), (4, 10), (5, 11)])
    """
    raise NotImplementedError("TODO 6.7: windows")


def blend_windows(
    layer: Callable[[Tensor], Tensor], hidden: Tensor, length: int, stride: int, scheme: str
) -> Tensor:
    """6.7 · A layer that knows `length` frames, on more of them: its windows blended.

    hidden: (P, F, C), a row for each pixel, as to_temporal makes them. layer(x): (P, length, C)
    for (P, length, C); it is asked once for each of `windows`, in any order. A frame of the
    result is the weighted mean of what the windows say of it. The weight belongs to the place in
    the window:
    "flat"     1 everywhere
    "pyramid"  1, 2, 3 … up to the middle and down to 1 again: 1 2 2 1 for four, 1 2 3 2 1 for five
    The window that was added at the end takes no part in the mean: only frames that no other
    window covers are taken from it, as they are. Another scheme, or what `windows` refuses:
    ValueError.

    Source: FreeNoiseTransformerBlock's forward.

    >>> hidden = torch.zeros(1, 4, 1)
    >>> def first_place(x):  # a layer that says 6 of its first frame and 0 of others
    ...     return torch.tensor([6.0, 0.0, 0.0])[: x.shape[1], None].expand_as(x)
    >>> blend_windows(first_place, hidden, 3, 1, "pyramid").flatten().tolist()
    [6.0, 2.0, 0.0, 0.0]
    """
    raise NotImplementedError("TODO 6.7: blend_windows")
