"""Lab 07 · VAE encode decode: the bridge around the loop, for videos and for today's image VAEs.

Goal: say why a long clip can pass a video VAE in pieces, and what must be carried from one piece to
the next; bring latents to the denoiser and back with the constants of their family; decode in tiles
of time, frame by frame, and in half precision, without a seam, a peak of memory or a black picture.

Symbols: B = videos, C and D = channels, F = frames, f = latent frames, H, W and h, w = height and
width of pixels and latents, r = frames for each latent frame, kt = a kernel's length in time.
Videos are (B, C, F, H, W), latents (B, C, f, h, w).

A lent `vae` has these, and each call counts:
vae.config.scale_factor_temporal   r
vae.clear_cache()                  forgets every frame that its convolutions remember
vae.encoder(frames)                (B, 3, n, H, W) → (B, 2C, 1, h, w) where n is 1 at the beginning
                                   and r later; goes on from the frames of the calls before
vae.quant_conv(moments)            a convolution of 1 × 1 × 1
vae.post_quant_conv(latents)       the same before the decoder
vae.decoder(latents, first)        (B, C, 1, h, w) → (B, 3, n, H, W), n as above; goes on likewise

`diffusers` cannot be imported in this file: what is asked is written in torch.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor


def causal_conv3d(
    x: Tensor, weight: Tensor, bias: Tensor, cache: Tensor | None, pad: str
) -> tuple[Tensor, Tensor]:
    """7.1 · (y, cache): a causal convolution of a piece of a video, and what the next one needs.

    x: (B, C, n, H, W), n frames, 1 or more. weight: (D, C, kt, kh, kw), kt at least 2, kh and kw
    odd. bias: (D,). Stride 1. Returns y (B, D, n, H, W): rows and columns are padded with zeros.

    In time kt − 1 frames stand before the first of x and none after the last: those of `cache`, or,
    where it is None and a video begins, zeros (pad "zeros") or copies of x's first frame ("first").
    The cache that comes back, (B, C, kt − 1, H, W), is the last kt − 1 frames of all that went in,
    those before x included. Another pad, or a cache of another length: ValueError.

    Source: WanCausalConv3d ("zeros"); CogVideoXCausalConv3d and LTXVideoCausalConv3d ("first").

    >>> x, kernel = torch.tensor([1.0, 2.0, 4.0]).reshape(1, 1, 3, 1, 1), torch.ones(1, 1, 3, 1, 1)
    >>> y, cache = causal_conv3d(x, kernel, torch.zeros(1), None, "zeros")
    >>> y.flatten().tolist(), cache.flatten().tolist()
    ([1.0, 3.0, 7.0], [2.0, 4.0])
    >>> causal_conv3d(x, kernel, torch.zeros(1), cache, "zeros")[0].flatten().tolist()
    [7.0, 7.0, 7.0]
    """
    raise NotImplementedError("TODO 7.1: causal_conv3d")


def encode_in_chunks(vae: Any, video: Tensor) -> Tensor:
    """7.2 · The moments (B, 2C, f, h, w) of a video that is encoded in pieces.

    vae: lent, see above; it may remember the frames of another clip. Its encoder is given the first
    frame alone, then r frames at a time, in order; what it gives is joined in time. quant_conv
    comes last, once or for each piece. A number of frames that is not r·k + 1: ValueError; r may be
    1, and every number is that then.

    Source: AutoencoderKLWan._encode.

    >>> class Vae:
    ...     class config:
    ...         scale_factor_temporal = 4
    ...     clear_cache = lambda self: None
    ...     encoder = lambda self, frames: frames.mean(2, keepdim=True)
    ...     quant_conv = lambda self, moments: 10 * moments
    >>> encode_in_chunks(Vae(), torch.arange(9.0).reshape(1, 1, 9, 1, 1)).flatten().tolist()
    [0.0, 25.0, 65.0]
    """
    raise NotImplementedError("TODO 7.2: encode_in_chunks")


def per_channel(values: Sequence[float], like: Tensor) -> Tensor:
    """Given: a number for each channel, as a float32 tensor (1, C, 1, …) with the axes of `like`.

    >>> per_channel([1.0, 2.0], torch.zeros(3, 2, 4, 5, 6)).shape
    torch.Size([1, 2, 1, 1, 1])
    """
    return torch.tensor(values).float().to(like.device).reshape(1, -1, *[1] * (like.dim() - 2))


def to_model(latents: Tensor, stats: Mapping[str, Any]) -> Tensor:
    """7.3 · What the VAE encoded, as the denoiser wants it: by the constants of its family.

    latents: z, (B, C, f, h, w) or (B, C, h, w), of any float dtype, which the answer has too; what
    is computed is computed in float32. stats has exactly the names of one of these families:
    latents_mean m, latents_std s, lists with a number for each channel: (z − m) / s.
    the same and scaling_factor f: (z − m) · f / s.
    scaling_factor f, invert_scale_latents: z · f, or z / f where that is true.
    bn_mean μ, bn_var v, lists, and bn_eps ε, whose latents are always (B, C, h, w): blocks of 2 × 2
    pixels go into the channels in the order (channel, row, column), (B, 4C, h/2, w/2); of these
    (z − μ) / √(v + ε).
    Any other set of names, or an odd side with the last: ValueError.

    Source: WanImageToVideoPipeline.prepare_latents; LTXPipeline._normalize_latents;
    CogVideoXImageToVideoPipeline.prepare_latents; Flux2Pipeline._encode_vae_image.

    >>> stats = {"latents_mean": [1.0, 0.0], "latents_std": [2.0, 4.0]}
    >>> to_model(torch.tensor([5.0, 2.0]).reshape(1, 2, 1, 1, 1), stats).flatten().tolist()
    [2.0, 0.5]
    """
    raise NotImplementedError("TODO 7.3: to_model")


def to_vae(latents: Tensor, stats: Mapping[str, Any]) -> Tensor:
    """7.3 · The way back: what undoes to_model with the same stats, before the VAE decodes.

    latents: as to_model gives them; the last family's are (B, 4C, h, w) and become (B, C, 2h, 2w).
    dtypes, families and errors as there.

    Source: WanPipeline's call; LTXPipeline._denormalize_latents; Flux2DecodeStep.

    >>> stats = {"latents_mean": [1.0, 0.0], "latents_std": [2.0, 4.0]}
    >>> to_vae(torch.tensor([2.0, 0.5]).reshape(1, 2, 1, 1, 1), stats).flatten().tolist()
    [5.0, 2.0]
    """
    raise NotImplementedError("TODO 7.3: to_vae")


def temporal_tiled_decode(
    decode: Callable[[Tensor], Tensor], latents: Tensor, tile: int, stride: int, ratio: int
) -> Tensor:
    """7.4 · A long clip, decoded in tiles of time: (B, D, (f − 1)·ratio + 1, H, W).

    decode: takes n latent frames and gives (n − 1)·ratio + 1 frames; it begins anew in each call.
    latents: (B, C, f, h, w). tile, stride: latent frames, 1 ≤ stride ≤ tile, else ValueError.
    A clip of at most `tile` latent frames is decoded in one call. Any other:
    * A tile begins at each 0, stride, 2·stride, … below f, and takes tile + 1 latent frames, or
      what is left of them. All are decoded, in order, once each; each but the first then loses its
      first frame, which the tile before has too.
    * The first n frames of each but the first are blended with the last n of the tile before, *as
      that was blended itself*: n is (tile − stride)·ratio, or as many frames as the shorter of the
      two has; frame i is before·(1 − i/n) + own·i/n.
    * Of the first tile stride·ratio + 1 frames are kept, of the others stride·ratio, or what they
      have; joined in time, which makes (f − 1)·ratio + 1.

    Source: AutoencoderKLHunyuanVideo._temporal_tiled_decode.

    >>> lengths = []
    >>> def decode(z):  # ratio 1
    ...     lengths.append(z.shape[2])
    ...     return 10 * z
    >>> z = torch.arange(5.0).reshape(1, 1, 5, 1, 1)
    >>> temporal_tiled_decode(decode, z, 3, 2, 1).flatten().tolist(), lengths
    ([0.0, 10.0, 20.0, 30.0, 40.0], [4, 3, 1])
    """
    raise NotImplementedError("TODO 7.4: temporal_tiled_decode")


def channel_rms_norm(x: Tensor, gamma: Tensor, bias: Tensor | None) -> Tensor:
    """7.5 · Each pixel's channels brought to the length √C, times γ, plus a bias if there is one.

    x: (B, C, F, H, W), float32, float16 or bfloat16. gamma, bias: (C, 1, 1, 1) of the same dtype.
    x / max(‖x‖, 1e-12) · √C · γ + bias, with ‖x‖ the root of the sum of squares over the channels.
    Norm and quotient are computed in float32, so that 30,000 in float16 and pixels of zeros come
    out finite; the quotient goes back to x's dtype, which the answer has too.

    Source: WanRMS_norm.

    >>> x = torch.tensor([3.0, 4.0]).reshape(1, 2, 1, 1, 1)
    >>> y = channel_rms_norm(10000 * x.half(), torch.ones(2, 1, 1, 1).half(), None)
    >>> y.flatten().mul(100).round().tolist()
    [85.0, 113.0]
    """
    raise NotImplementedError("TODO 7.5: channel_rms_norm")


def decode_stream(vae: Any, latents: Tensor, sink: Callable[[Tensor], None]) -> int:
    """7.6 · Decode latent frame by latent frame, hand each out as it comes; the number of frames.

    vae: lent, see above; it may remember another clip. latents: (B, C, f, h, w), as the VAE wants
    them. Its decoder is given one latent frame at a time, in order, and `first` is True for the
    first alone; post_quant_conv comes before, once or for each. What it gives goes to `sink` before
    the decoder is called again, as uint8 (B, n, H, W, 3): clamped to −1 … 1, brought to 0 … 255 and
    rounded. Nothing else is kept.

    Source: AutoencoderKLWan._decode; VideoProcessor.postprocess_video.

    >>> class Vae:
    ...     clear_cache = lambda self: None
    ...     post_quant_conv = lambda self, z: z
    ...     decoder = lambda self, z, first: z.repeat(1, 3, 1 if first else 2, 1, 1)
    >>> handed = []
    >>> z = torch.tensor([-3.0, 0.3]).reshape(1, 1, 2, 1, 1)
    >>> decode_stream(Vae(), z, handed.append), [x.flatten().tolist() for x in handed]
    (3, [[0, 0, 0], [166, 166, 166, 166, 166, 166]])
    """
    raise NotImplementedError("TODO 7.6: decode_stream")


def average_down(x: Tensor, out_channels: int, factor_t: int, factor_s: int) -> Tensor:
    """7.7 · A shortcut around an encoder's stage: blocks into channels, neighbours averaged.

    x: (B, C, F, H, W). Frames of zeros are put *before* the first until factor_t divides F. Blocks
    of factor_t frames, factor_s rows and factor_s columns go into the channels in the order
    (channel, time, row, column); neighbouring channels are then averaged, equally many for each of
    out_channels. Returns (B, out_channels, ⌈F / factor_t⌉, H / factor_s, W / factor_s).
    C · factor_t · factor_s² that out_channels does not divide: ValueError.

    Source: AvgDown3D of AutoencoderKLWan.

    >>> x = torch.arange(1.0, 7.0).reshape(1, 2, 3, 1, 1)
    >>> average_down(x, 2, 2, 1).flatten().tolist(), average_down(x, 4, 2, 1).flatten().tolist()
    ([0.5, 2.5, 2.0, 5.5], [0.0, 2.0, 1.0, 3.0, 0.0, 5.0, 4.0, 6.0])
    """
    raise NotImplementedError("TODO 7.7: average_down")


def duplicate_up(x: Tensor, out_channels: int, factor_t: int, factor_s: int, first: bool) -> Tensor:
    """7.7 · A shortcut around a decoder's stage: channels repeated, and back into blocks.

    x: (B, C, F, H, W). Each channel is repeated in place until there are out_channels · factor_t ·
    factor_s²; these become blocks, in the order of average_down. Returns (B, out_channels,
    F · factor_t, H · factor_s, W · factor_s), without its first factor_t − 1 frames where `first`
    is true. out_channels · factor_t · factor_s² that C does not divide: ValueError.

    Source: DupUp3D of AutoencoderKLWan.

    >>> x = torch.tensor([1.0, 2.0]).reshape(1, 2, 1, 1, 1)
    >>> duplicate_up(x, 1, 2, 2, False).flatten().tolist()
    [1.0, 1.0, 1.0, 1.0, 2.0, 2.0, 2.0, 2.0]
    >>> duplicate_up(x, 1, 2, 1, True).flatten().tolist()
    [2.0]
    """
    raise NotImplementedError("TODO 7.7: duplicate_up")
