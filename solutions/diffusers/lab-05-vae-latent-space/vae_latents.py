"""Lab 05 · VAE latent space: from pixels to a smaller learned tensor, and back.

Goal: see the two ends of a latent diffusion pipeline. The VAE's encoder turns an image into the
mean and variance of a small tensor, the decoder turns such a tensor into an image, and everything
between them (noise, denoiser, scheduler) works on the small tensor alone. How much smaller, with
how many channels, and scaled by which constants: the model's configuration says it, nothing else.

Symbols: B = batch, C = latent channels, H and W = the image's sides in pixels, f = pixels per
latent along one side, h = H / f, w = W / f, z = latents.

`vae_config` is a dict with diffusers' own field names. `vae` is an AutoencoderKL lent to you:

* `vae.encode(x)`: (B, 3, H, W) → the moments, (B, 2·C, h, w). (diffusers wraps this tensor:
  `vae.encode(x).latent_dist.parameters`.)
* `vae.decode(z)`: (B, C, h, w) → an image, (B, 3, H, W). (In diffusers `vae.decode(z).sample`.)
* `vae.encoder(x)` and `vae.decoder(z)`: the two large networks inside them.
* `vae.config`: its configuration, read as `vae.config.scaling_factor`.

`diffusers` cannot be imported in this file: what is asked is written in torch.
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor


def latent_shape(
    vae_config: dict[str, Any], batch: int, height: int, width: int
) -> tuple[int, int, int, int]:
    """5.1 · The shape of the latents of `batch` images of height × width pixels.

    Reads block_out_channels and latent_channels. Every block of the encoder but the last halves
    both sides. Returns (B, C, h, w), whole numbers.

    ValueError when a side does not divide; its text names the number that both sides must be a
    multiple of. (The VAE itself rounds down in silence.)

    Source: Rombach et al. 2022 (arXiv 2112.10752), section 3.1; AutoencoderKL.encode.

    >>> config = {"block_out_channels": [128, 256, 512, 512], "latent_channels": 4}
    >>> latent_shape(config, 2, 512, 768)
    (2, 4, 64, 96)
    >>> latent_shape({"block_out_channels": [16, 32], "latent_channels": 8}, 1, 6, 10)
    (1, 8, 3, 5)
    """
    ### BEGIN SOLUTION
    factor = 2 ** (len(vae_config["block_out_channels"]) - 1)
    if height % factor or width % factor:
        raise ValueError(f"{height}×{width}: both sides must be multiples of {factor}")
    return batch, vae_config["latent_channels"], height // factor, width // factor
    ### END SOLUTION


def to_model_range(image: np.ndarray) -> Tensor:
    """5.2 · Pixels as the encoder expects them: channels first, numbers from −1 to 1.

    image: uint8 array, (H, W, 3) or (B, H, W, 3). Returns float32 (B, 3, H, W), B = 1 for a single
    image: 0 becomes −1, 255 becomes 1.

    Source: VaeImageProcessor.preprocess on PIL images.

    >>> x = to_model_range(np.array([[[0, 51, 255]]], np.uint8))
    >>> x.shape, [round(value, 3) for value in x.flatten().tolist()]
    (torch.Size([1, 3, 1, 1]), [-1.0, -0.6, 1.0])
    """
    ### BEGIN SOLUTION
    pixels = torch.from_numpy(image).to(torch.float32)
    if pixels.dim() == 3:
        pixels = pixels[None]
    return pixels.permute(0, 3, 1, 2) / 127.5 - 1
    ### END SOLUTION


def to_image(tensor: Tensor) -> np.ndarray:
    """5.2 · A decoded tensor as pixels.

    tensor: float32 (B, 3, H, W), about −1 to 1; a decoder goes beyond that. Returns a uint8 array,
    (B, H, W, 3): −1 becomes 0, 1 becomes 255, what lies outside is cut off, what lies between two
    whole numbers goes to the nearer one.

    Source: VaeImageProcessor.postprocess with output_type "pil".

    >>> to_image(torch.tensor([-1.5, -0.6, 0.99]).reshape(1, 3, 1, 1)).tolist()
    [[[[0, 51, 254]]]]
    """
    ### BEGIN SOLUTION
    share = (tensor.float() / 2 + 0.5).clamp(0, 1)
    rounded = (share * 255).round().to(torch.uint8)
    return rounded.permute(0, 2, 3, 1).cpu().numpy()
    ### END SOLUTION


def posterior(moments: Tensor) -> tuple[Tensor, Tensor]:
    """5.3 · What the encoder says about an image: a normal distribution for every latent.

    moments: (B, 2·C, h, w), the means in the first C channels, the logarithms of the *variances* in
    the others. Returns (mean, std), each (B, C, h, w). The log variance is clamped to [−30, 20].

    Source: Kingma, Welling 2014 (arXiv 1312.6114), appendix C.2; DiagonalGaussianDistribution.

    >>> mean, std = posterior(torch.tensor([3.0, -1.0, 0.0, -4.0]).reshape(1, 4, 1, 1))
    >>> mean.flatten().tolist(), [round(value, 4) for value in std.flatten().tolist()]
    ([3.0, -1.0], [1.0, 0.1353])
    """
    ### BEGIN SOLUTION
    mean, logvar = moments.chunk(2, dim=1)
    return mean, (logvar.clamp(-30, 20) / 2).exp()
    ### END SOLUTION


def sample(moments: Tensor, noise: Tensor) -> Tensor:
    """5.3 · One draw from the posterior, made of noise that is given.

    moments: (B, 2·C, h, w); noise: standard normal, (B, C, h, w). Returns (B, C, h, w).

    Read: handbook/vae.md, "The posterior".
    Source: Kingma, Welling 2014, section 2.4; DiagonalGaussianDistribution.sample.

    >>> sample(torch.tensor([3.0, 0.0]).reshape(1, 2, 1, 1), torch.full((1, 1, 1, 1), 0.5)).item()
    3.5
    """
    ### BEGIN SOLUTION
    mean, std = posterior(moments)
    return mean + std * noise
    ### END SOLUTION


def mode(moments: Tensor) -> Tensor:
    """5.3 · The most likely latents: the mean. Nothing is drawn.

    moments: (B, 2·C, h, w). Returns (B, C, h, w).

    Source: DiagonalGaussianDistribution.mode.

    >>> mode(torch.tensor([3.0, 0.0]).reshape(1, 2, 1, 1)).item()
    3.0
    """
    ### BEGIN SOLUTION
    return posterior(moments)[0]
    ### END SOLUTION


def kl(moments: Tensor) -> Tensor:
    """5.3 · How far each image's posterior is from a standard normal distribution, in nats.

    moments: (B, 2·C, h, w). Returns (B,): the Kullback–Leibler divergence, summed over all latents
    of one image, with the clamped log variance.

    Read: handbook/vae.md, "The posterior".
    Source: Kingma, Welling 2014, appendix B; DiagonalGaussianDistribution.kl.

    >>> kl(torch.tensor([[2.0, 0.0], [0.0, 0.0]]).reshape(2, 2, 1, 1)).tolist()
    [2.0, 0.0]
    """
    ### BEGIN SOLUTION
    mean, logvar = moments.flatten(2).chunk(2, dim=1)
    logvar = logvar.clamp(-30, 20)
    return (mean**2 + logvar.exp() - 1 - logvar).sum(dim=(1, 2)) / 2
    ### END SOLUTION


def encode(vae: Any, image: Tensor, noise: Tensor | None) -> Tensor:
    """5.4 · An image as the latents that a denoiser works on.

    image: float32 (B, 3, H, W) in [−1, 1]. noise: (B, C, h, w) for a draw from the posterior; None
    for its mode. Returns (B, C, h, w), brought to the denoiser's size by the configuration:

    * latents_mean and latents_std given (one number a channel): they and scaling_factor; a
      shift_factor then plays no part.
    * otherwise: shift_factor, where None is no shift, and scaling_factor.

    Read: handbook/vae.md, "Scaling the latents".
    Source: the prepare_latents and _encode_vae_image of diffusers' image-to-image pipelines
    (Stable Diffusion XL for the first, Flux for the second).

    >>> from types import SimpleNamespace
    >>> config = SimpleNamespace(
    ...     scaling_factor=0.5, shift_factor=1.0, latents_mean=None, latents_std=None
    ... )
    >>> vae = SimpleNamespace(config=config, encode=lambda x: torch.cat([x, 0 * x], dim=1))
    >>> encode(vae, torch.full((1, 1, 1, 1), 5.0), None).item()
    2.0
    """
    ### BEGIN SOLUTION
    moments = vae.encode(image)
    z = mode(moments) if noise is None else sample(moments, noise)
    config = vae.config
    if config.latents_mean is not None and config.latents_std is not None:
        center = torch.tensor(config.latents_mean, device=z.device).reshape(1, -1, 1, 1)
        spread = torch.tensor(config.latents_std, device=z.device).reshape(1, -1, 1, 1)
        return (z - center) * config.scaling_factor / spread
    return (z - (config.shift_factor or 0.0)) * config.scaling_factor
    ### END SOLUTION


def decode(vae: Any, latents: Tensor) -> Tensor:
    """5.5 · Latents, as a denoiser leaves them, as an image.

    latents: float32 (B, C, h, w). Returns what the decoder makes of them, float32 (B, 3, H, W),
    about −1 to 1, not clamped. Before decoding, the scaling of 5.4 is taken back, each operation by
    its inverse and in the opposite order. The same fields of vae.config may be None.

    Read: handbook/vae.md, "Scaling the latents".
    Source: the end of __call__ in StableDiffusionXLPipeline and FluxPipeline.

    >>> from types import SimpleNamespace
    >>> config = SimpleNamespace(
    ...     scaling_factor=0.5, shift_factor=1.0, latents_mean=None, latents_std=None
    ... )
    >>> vae = SimpleNamespace(config=config, decode=lambda z: z)
    >>> decode(vae, torch.full((1, 1, 1, 1), 2.0)).item()
    5.0
    """
    ### BEGIN SOLUTION
    settings = vae.config
    if settings.latents_mean is not None and settings.latents_std is not None:
        means, stds = (
            torch.tensor(numbers, device=latents.device)[None, :, None, None]
            for numbers in (settings.latents_mean, settings.latents_std)
        )
        z = latents * stds / settings.scaling_factor + means
    else:
        z = latents / settings.scaling_factor + (settings.shift_factor or 0.0)
    return vae.decode(z)
    ### END SOLUTION


def compression(
    vae_config: dict[str, Any], height: int, width: int, dtype: torch.dtype
) -> tuple[float, int, int]:
    """5.6 · What the detour through latents saves, for one image.

    Returns (ratio, image bytes, latent bytes). ratio: elements of the image tensor per element of
    the latents. Both are held in `dtype`, e.g. torch.float16; the image has the configuration's
    in_channels channels. Both sides divide (see 5.1).

    Source: Tensor.numel and Tensor.element_size of the real tensors.

    >>> config = {"block_out_channels": [128, 256, 512, 512], "latent_channels": 4}
    >>> compression(config | {"in_channels": 3}, 512, 512, torch.float16)
    (48.0, 1572864, 32768)
    """
    ### BEGIN SOLUTION
    _, channels, rows, columns = latent_shape(vae_config, 1, height, width)
    before = vae_config["in_channels"] * height * width
    after = channels * rows * columns
    return before / after, before * dtype.itemsize, after * dtype.itemsize
    ### END SOLUTION


def pack(latents: Tensor) -> Tensor:
    """5.7 · Latents as the tokens of a transformer: each 2×2 patch becomes one.

    latents: (B, C, h, w). Returns (B, h/2 · w/2, 4·C), the same numbers to the bit. Tokens go row
    by row. Within a token the channel counts slowest, then the patch's row, then its column.
    ValueError when h or w is odd.

    Source: FluxPipeline._pack_latents.

    >>> pack(torch.arange(8).reshape(1, 1, 2, 4)).tolist()
    [[[0, 1, 4, 5], [2, 3, 6, 7]]]
    """
    ### BEGIN SOLUTION
    b, c, h, w = latents.shape
    if h % 2 or w % 2:
        raise ValueError(f"latents of {h}×{w} do not split into patches of 2×2")
    patches = latents.reshape(b, c, h // 2, 2, w // 2, 2)
    return patches.permute(0, 2, 4, 1, 3, 5).reshape(b, h // 2 * (w // 2), 4 * c)
    ### END SOLUTION


def unpack(tokens: Tensor, height: int, width: int) -> Tensor:
    """5.7 · Tokens as latents again: the inverse of pack.

    tokens: (B, h/2 · w/2, 4·C); height and width are h and w, *of the latents*. Returns
    (B, C, h, w). ValueError when height or width is odd.

    Source: FluxPipeline._unpack_latents (which takes the sides in pixels).

    >>> unpack(torch.tensor([[[0, 1, 4, 5], [2, 3, 6, 7]]]), 2, 4).tolist()
    [[[[0, 1, 2, 3], [4, 5, 6, 7]]]]
    """
    ### BEGIN SOLUTION
    if height % 2 or width % 2:
        raise ValueError(f"{height}×{width} latents have no 2×2 patches to put back")
    b, _, features = tokens.shape
    grid = tokens.reshape(b, height // 2, width // 2, features // 4, 2, 2)
    return grid.permute(0, 3, 1, 4, 2, 5).reshape(b, features // 4, height, width)
    ### END SOLUTION
