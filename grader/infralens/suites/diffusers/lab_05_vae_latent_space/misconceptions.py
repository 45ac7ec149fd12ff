"""Lab 05: wrong answers that people really give, each the shortest code beside its sentence."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from infralens.examiner import misconception

PAGE = "handbook/vae.md"
SHAPE = f"{PAGE}#the-latent-shape"
RANGE = f"{PAGE}#pixels-and-the-models-range"
POSTERIOR = f"{PAGE}#the-posterior"
SCALING = f"{PAGE}#scaling-the-latents"
DECODING = f"{PAGE}#decoding"
SAVED = f"{PAGE}#what-it-saves"
PACKING = f"{PAGE}#packing-for-a-transformer"

Shape = tuple[int, ...]
Config = dict[str, Any]


# Compact twins of the right answers, for the wrong ones below to differ from in one place.


def factor_of(config: Config) -> int:
    return int(2 ** (len(config["block_out_channels"]) - 1))


def refuse(height: int, width: int, factor: int) -> None:
    if height % factor != 0 or width % factor != 0:
        raise ValueError(f"the sides must be multiples of {factor}, not {height} and {width}")


def shape_for(config: Config, batch: int, height: int, width: int, factor: int) -> Shape:
    return batch, config["latent_channels"], height // factor, width // factor


def halves(moments: Tensor) -> tuple[Tensor, Tensor]:
    channels = moments.shape[1] // 2
    return moments[:, :channels], moments[:, channels:].clamp(min=-30, max=20)


def drawn(moments: Tensor, noise: Tensor | None) -> Tensor:
    mean, logvar = halves(moments)
    return mean if noise is None else mean + (0.5 * logvar).exp() * noise


def channelwise(numbers: Any, like: Tensor) -> Tensor:
    return torch.tensor(list(numbers)).to(like).view(1, -1, 1, 1)


def standardizes(vae: Any) -> bool:
    return bool(vae.config.latents_mean)


def scaled(vae: Any, z: Tensor) -> Any:
    c = vae.config
    if standardizes(vae):
        return (
            (z - channelwise(c.latents_mean, z)) / channelwise(c.latents_std, z) * c.scaling_factor
        )
    return (z - (c.shift_factor or 0)) * c.scaling_factor


def unscaled(vae: Any, z: Tensor) -> Any:
    c = vae.config
    if standardizes(vae):
        return z / c.scaling_factor * channelwise(c.latents_std, z) + channelwise(c.latents_mean, z)
    return z / c.scaling_factor + (c.shift_factor or 0)


# 5.1


@misconception("5.1", "multiple-not-named", replaces="latent_shape", reads=SHAPE)
def multiple_not_named(config: Config, batch: int, height: int, width: int) -> Shape:
    """The error does not say which number the sides must be a multiple of. Whoever reads it has to
    know what to do next."""
    factor = factor_of(config)
    if height % factor + width % factor:
        raise ValueError(f"{height}×{width} does not divide")
    return shape_for(config, batch, height, width, factor)


@misconception("5.1", "only-the-height-checked", replaces="latent_shape", reads=SHAPE)
def only_the_height(config: Config, batch: int, height: int, width: int) -> Shape:
    """Only the height was checked. Both sides must divide."""
    refuse(height, 0, factor_of(config))
    return shape_for(config, batch, height, width, factor_of(config))


@misconception("5.1", "assert-for-an-error", replaces="latent_shape", reads=SHAPE)
def assert_for_an_error(config: Config, batch: int, height: int, width: int) -> Shape:
    """An assert is for what cannot happen, and `python -O` leaves it out. A size that somebody
    typed is a ValueError."""
    factor = factor_of(config)
    assert height % factor == 0 == width % factor, f"sides must be multiples of {factor}"
    return shape_for(config, batch, height, width, factor)


@misconception("5.1", "rounded-down-in-silence", replaces="latent_shape", reads=SHAPE)
def rounded_down(config: Config, batch: int, height: int, width: int) -> Shape:
    """A side that does not divide was rounded down. The VAE does the same, and the image comes back
    smaller than it went in: refuse it instead."""
    return shape_for(config, batch, height, width, factor_of(config))


@misconception("5.1", "eight-hard-coded", replaces="latent_shape", reads=SHAPE)
def eight_hard_coded(config: Config, batch: int, height: int, width: int) -> Shape:
    """The sides were divided by 8. That is Stable Diffusion's VAE with its four blocks; another VAE
    has another factor: 2 to the power of the number of blocks less one."""
    refuse(height, width, 8)
    return shape_for(config, batch, height, width, 8)


@misconception("5.1", "a-halving-in-every-block", replaces="latent_shape", reads=SHAPE)
def halving_in_every_block(config: Config, batch: int, height: int, width: int) -> Shape:
    """One halving too many: the last block of the encoder keeps the size."""
    factor = 2 * factor_of(config)
    refuse(height, width, factor)
    return shape_for(config, batch, height, width, factor)


@misconception("5.1", "factor-of-two-a-block", replaces="latent_shape", reads=SHAPE)
def two_times_the_blocks(config: Config, batch: int, height: int, width: int) -> Shape:
    """The halvings were added up. Each one halves what the one before left, so they multiply: 2, 4,
    8, not 2, 4, 6."""
    factor = 2 * (len(config["block_out_channels"]) - 1)
    refuse(height, width, factor_of(config))
    return shape_for(config, batch, height, width, factor)


@misconception("5.1", "four-latent-channels", replaces="latent_shape", reads=SHAPE)
def four_channels(config: Config, batch: int, height: int, width: int) -> Shape:
    """Four latent channels were assumed. The configuration's latent_channels says how many there
    are: Stable Diffusion 3 and Flux have 16."""
    refuse(height, width, factor_of(config))
    return shape_for(config | {"latent_channels": 4}, batch, height, width, factor_of(config))


@misconception("5.1", "channels-of-the-last-block", replaces="latent_shape", reads=SHAPE)
def channels_of_the_last_block(config: Config, batch: int, height: int, width: int) -> Shape:
    """These are the channels inside the encoder. One last convolution brings them down to
    latent_channels."""
    inside = config["block_out_channels"][-1]
    refuse(height, width, factor_of(config))
    return shape_for(config | {"latent_channels": inside}, batch, height, width, factor_of(config))


@misconception("5.1", "channels-of-the-moments", replaces="latent_shape", reads=SHAPE)
def channels_of_the_moments(config: Config, batch: int, height: int, width: int) -> Shape:
    """The encoder's output has twice the channels: means and log variances. The latents are one
    draw from that, with latent_channels."""
    twice = 2 * config["latent_channels"]
    refuse(height, width, factor_of(config))
    return shape_for(config | {"latent_channels": twice}, batch, height, width, factor_of(config))


@misconception("5.1", "width-before-height", replaces="latent_shape", reads=SHAPE)
def width_first(config: Config, batch: int, height: int, width: int) -> Shape:
    """Height and width changed places. Tensors go (batch, channels, height, width)."""
    refuse(height, width, factor_of(config))
    return shape_for(config, batch, width, height, factor_of(config))


# 5.2


def batched(image: np.ndarray[Any, Any]) -> Tensor:
    pixels = torch.from_numpy(image).float()
    return pixels if pixels.dim() == 4 else pixels.unsqueeze(0)


@misconception("5.2", "image-from-zero-to-one", replaces="to_model_range", reads=RANGE)
def zero_to_one(image: np.ndarray[Any, Any]) -> Tensor:
    """The image goes from 0 to 1. The encoder was trained on −1 to 1: double it and take 1 away."""
    return batched(image).movedim(-1, 1) / 255


@misconception("5.2", "pixels-not-divided", replaces="to_model_range", reads=RANGE)
def not_divided(image: np.ndarray[Any, Any]) -> Tensor:
    """The pixels were not divided by 255 before 2·x − 1. (diffusers does the same, in silence, when
    it is given a uint8 array in place of a PIL image.)"""
    return batched(image).movedim(-1, 1) * 2 - 1


@misconception("5.2", "divided-by-128", replaces="to_model_range", reads=RANGE)
def by_128(image: np.ndarray[Any, Any]) -> Tensor:
    """White became .992. The largest pixel is 255, so it is 127.5 that maps it to 1."""
    return batched(image).movedim(-1, 1) / 128 - 1


@misconception("5.2", "reshaped-to-channels-first", replaces="to_model_range", reads=RANGE)
def reshaped(image: np.ndarray[Any, Any]) -> Tensor:
    """The array was reshaped, which cuts the pixels into other rows. Move the axis instead:
    permute(0, 3, 1, 2)."""
    x = batched(image)
    b, h, w, c = x.shape
    return x.reshape(b, c, h, w) / 127.5 - 1


@misconception("5.2", "rows-and-columns-swapped", replaces="to_model_range", reads=RANGE)
def transposed(image: np.ndarray[Any, Any]) -> Tensor:
    """Height and width changed places as the channels moved. Rows stay rows: permute(0, 3, 1,
    2)."""
    return batched(image).transpose(1, 3) / 127.5 - 1


@misconception("5.2", "blue-before-red", replaces="to_model_range", reads=RANGE)
def blue_first(image: np.ndarray[Any, Any]) -> Tensor:
    """Red and blue changed places. The array is RGB, and so is what the VAE was trained on."""
    return batched(image).flip(-1).movedim(-1, 1) / 127.5 - 1


@misconception("5.2", "batch-axis-missing", replaces="to_model_range", reads=RANGE)
def without_a_batch(image: np.ndarray[Any, Any]) -> Tensor:
    """A single image came back without its batch axis. The encoder wants (1, 3, H, W)."""
    return torch.from_numpy(image).float().movedim(-1, -3) / 127.5 - 1


def as_pixels(share: Tensor) -> np.ndarray[Any, Any]:
    array: np.ndarray[Any, Any] = (share * 255).round().byte().movedim(1, -1).cpu().numpy()
    return array


@misconception("5.2", "output-not-shifted", replaces="to_image", reads=RANGE)
def not_shifted(tensor: Tensor) -> np.ndarray[Any, Any]:
    """The decoder's −1 to 1 was taken as 0 to 1: everything below the middle is black. Halve it and
    add one half first."""
    return as_pixels(tensor.clamp(0, 1))


@misconception("5.2", "output-not-clamped", replaces="to_image", reads=RANGE)
def not_clamped(tensor: Tensor) -> np.ndarray[Any, Any]:
    """Values outside the range wrapped around: 256 became 0. A decoder goes beyond −1 and 1; clamp
    before the cast to uint8."""
    wrapped = (tensor * 127.5 + 127.5).round().long().remainder(256)
    array: np.ndarray[Any, Any] = wrapped.byte().movedim(1, -1).cpu().numpy()
    return array


@misconception("5.2", "pixels-truncated", replaces="to_image", reads=RANGE)
def truncated(tensor: Tensor) -> np.ndarray[Any, Any]:
    """The cast to uint8 cuts the fraction off, so half of the pixels are one too dark. Round
    first."""
    array: np.ndarray[Any, Any] = (
        (tensor * 0.5 + 0.5).clamp(0, 1).mul(255).byte().movedim(1, -1).cpu().numpy()
    )
    return array


@misconception("5.2", "channels-left-first", replaces="to_image", reads=RANGE)
def channels_first(tensor: Tensor) -> np.ndarray[Any, Any]:
    """The channels are still the second axis. An image has them last: (B, H, W, 3)."""
    return as_pixels((tensor * 0.5 + 0.5).clamp(0, 1).movedim(-1, 1))


@misconception("5.2", "stretched-to-its-own-range", replaces="to_image", reads=RANGE)
def stretched(tensor: Tensor) -> np.ndarray[Any, Any]:
    """The image was stretched from its own darkest to its own brightest value. The range is fixed:
    −1 is black and 1 is white, whatever the picture."""
    return as_pixels((tensor - tensor.min()) / (tensor.max() - tensor.min()))


# 5.3


@misconception("5.3", "variance-as-deviation", replaces="posterior", reads=POSTERIOR)
def variance_as_deviation(moments: Tensor) -> tuple[Tensor, Tensor]:
    """e^logvar is the variance. The standard deviation is its root: e^(logvar / 2)."""
    mean, logvar = halves(moments)
    return mean, logvar.exp()


@misconception("5.3", "log-deviation", replaces="posterior", reads=POSTERIOR)
def log_as_deviation(moments: Tensor) -> tuple[Tensor, Tensor]:
    """The second half was returned as it is. It holds logarithms of variances, some of them
    negative, not deviations."""
    return halves(moments)


@misconception("5.3", "clamped-from-above-alone", replaces="posterior", reads=POSTERIOR)
def clamped_above(moments: Tensor) -> tuple[Tensor, Tensor]:
    """The log variance was clamped at 20 but not at −30."""
    mean, logvar = torch.chunk(moments, 2, 1)
    return mean, (0.5 * logvar.clamp(max=20)).exp()


@misconception("5.3", "log-variance-not-clamped", replaces="posterior", reads=POSTERIOR)
def not_clamped_at_all(moments: Tensor) -> tuple[Tensor, Tensor]:
    """The log variance was not clamped to [−30, 20]. Without it one wild value overflows."""
    mean, logvar = torch.chunk(moments, 2, 1)
    return mean, (0.5 * logvar).exp()


@misconception("5.3", "variances-first", replaces="posterior", reads=POSTERIOR)
def variances_first(moments: Tensor) -> tuple[Tensor, Tensor]:
    """The halves changed places. The means come first, the log variances second."""
    second, first = torch.chunk(moments, 2, 1)
    return first, (0.5 * second.clamp(-30, 20)).exp()


@misconception("5.3", "every-other-channel", replaces="posterior", reads=POSTERIOR)
def interleaved(moments: Tensor) -> tuple[Tensor, Tensor]:
    """Means and log variances were read in turns. They stand in two blocks: the first C channels
    and the last C."""
    return moments[:, 0::2], (0.5 * moments[:, 1::2].clamp(-30, 20)).exp()


@misconception("5.3", "noise-not-scaled", replaces="sample", reads=POSTERIOR)
def noise_not_scaled(moments: Tensor, noise: Tensor) -> Tensor:
    """The noise was added as it is. Each latent has a deviation of its own: mean + std·noise."""
    return halves(moments)[0] + noise


@misconception("5.3", "noise-times-the-variance", replaces="sample", reads=POSTERIOR)
def times_the_variance(moments: Tensor, noise: Tensor) -> Tensor:
    """The noise was multiplied by the variance. The deviation is its root."""
    mean, logvar = halves(moments)
    return mean + logvar.exp() * noise


@misconception("5.3", "mode-for-a-sample", replaces="sample", reads=POSTERIOR)
def mode_for_a_sample(moments: Tensor, noise: Tensor) -> Tensor:
    """This is the mode, whatever the noise. A sample adds std·noise to it."""
    return halves(moments)[0]


@misconception("5.3", "sample-not-clamped", replaces="sample", reads=POSTERIOR)
def sample_not_clamped(moments: Tensor, noise: Tensor) -> Tensor:
    """The sample was drawn with a log variance that was not clamped to [−30, 20]."""
    mean, logvar = torch.chunk(moments, 2, 1)
    return mean + (0.5 * logvar).exp() * noise


@misconception("5.3", "mode-of-all-moments", replaces="mode", reads=POSTERIOR)
def all_moments(moments: Tensor) -> Tensor:
    """The moments were returned whole. The mode is the mean, their first half."""
    return moments


@misconception("5.3", "sample-for-the-mode", replaces="mode", reads=POSTERIOR)
def sample_for_the_mode(moments: Tensor) -> Tensor:
    """This is a sample, drawn from a fixed seed. The mode draws nothing: it is the mean itself."""
    mean, logvar = halves(moments)
    noise = torch.randn(mean.shape, generator=torch.Generator().manual_seed(0))
    return mean + (0.5 * logvar).exp() * noise.to(mean.device)


def divergence(mean: Tensor, logvar: Tensor) -> Tensor:
    return 0.5 * (mean.square() + logvar.exp() - logvar - 1)


@misconception("5.3", "divergence-averaged", replaces="kl", reads=POSTERIOR)
def averaged(moments: Tensor) -> Tensor:
    """The divergence was averaged over the latents. Those of one image are independent, so theirs
    add up."""
    return divergence(*halves(moments)).mean((1, 2, 3))


@misconception("5.3", "batch-axis-squeezed-away", replaces="kl", reads=POSTERIOR)
def squeezed_away(moments: Tensor) -> Tensor:
    """A single image lost its batch axis, by .squeeze() perhaps. One number an image is a tensor of
    shape (B,), also where B is 1."""
    mean, logvar = halves(moments)
    return ((mean**2 + logvar.exp() - 1 - logvar).flatten(1).sum(1) / 2).squeeze()


@misconception("5.3", "divergence-of-the-whole-batch", replaces="kl", reads=POSTERIOR)
def of_the_batch(moments: Tensor) -> Tensor:
    """One number came back for the whole batch. Each image has its own: sum over channels, rows and
    columns only."""
    return divergence(*halves(moments)).sum()


@misconception("5.3", "divergence-not-halved", replaces="kl", reads=POSTERIOR)
def not_halved(moments: Tensor) -> Tensor:
    """The sum was not halved: the ½ comes from the exponent of the normal distribution."""
    return 2 * divergence(*halves(moments)).sum((1, 2, 3))


@misconception("5.3", "divergence-with-deviation", replaces="kl", reads=POSTERIOR)
def with_the_deviation(moments: Tensor) -> Tensor:
    """The deviation was used where the variance belongs: e^logvar, not e^(logvar / 2)."""
    mean, logvar = halves(moments)
    wrong = mean.square() + (0.5 * logvar).exp() - logvar - 1
    return 0.5 * wrong.sum((1, 2, 3))


@misconception("5.3", "divergence-upside-down", replaces="kl", reads=POSTERIOR)
def upside_down(moments: Tensor) -> Tensor:
    """The sign is turned round. A divergence is never negative; it is −½·Σ (1 + logvar − mean² −
    var), with the minus in front."""
    return -divergence(*halves(moments)).sum((1, 2, 3))


@misconception("5.3", "divergence-not-clamped", replaces="kl", reads=POSTERIOR)
def divergence_not_clamped(moments: Tensor) -> Tensor:
    """The divergence was taken with a log variance that was not clamped to [−30, 20]."""
    mean, logvar = torch.chunk(moments, 2, 1)
    return divergence(mean, logvar).sum((1, 2, 3))


# 5.4


@misconception("5.4", "latents-not-scaled", replaces="encode", reads=SCALING)
def latents_not_scaled(vae: Any, image: Tensor, noise: Tensor | None) -> Any:
    """The encoder's latents were returned as they are. The denoiser was trained on latents of about
    unit deviation: the configuration's constants bring them there."""
    return drawn(vae.encode(image), noise)


@misconception("5.4", "divided-by-the-scaling-factor", replaces="encode", reads=SCALING)
def divided_when_encoding(vae: Any, image: Tensor, noise: Tensor | None) -> Any:
    """The latents were divided by the scaling factor. Encoding multiplies; decoding divides."""
    z = drawn(vae.encode(image), noise)
    return scaled(vae, z) / vae.config.scaling_factor**2


@misconception("5.4", "scaling-of-stable-diffusion", replaces="encode", reads=SCALING)
def hard_coded(vae: Any, image: Tensor, noise: Tensor | None) -> Any:
    """0.18215 was written into the code. It belongs to Stable Diffusion 1's VAE; SDXL's has .13025,
    Flux' .3611. Read vae.config.scaling_factor."""
    z = drawn(vae.encode(image), noise)
    return scaled(vae, z) / vae.config.scaling_factor * 0.18215


@misconception("5.4", "shift-forgotten", replaces="encode", reads=SCALING)
def shift_forgotten(vae: Any, image: Tensor, noise: Tensor | None) -> Any:
    """The shift_factor was left out. It is small, and nothing fails without it."""
    z = drawn(vae.encode(image), noise)
    return scaled(vae, z) if standardizes(vae) else z * vae.config.scaling_factor


@misconception("5.4", "shift-after-scaling", replaces="encode", reads=SCALING)
def shift_after_scaling(vae: Any, image: Tensor, noise: Tensor | None) -> Any:
    """The shift was subtracted after the scaling. Subtract first: (z − shift)·scale."""
    z, c = drawn(vae.encode(image), noise), vae.config
    if standardizes(vae):
        return scaled(vae, z)
    return z * c.scaling_factor - (c.shift_factor or 0)


@misconception("5.4", "shift-added", replaces="encode", reads=SCALING)
def shift_added(vae: Any, image: Tensor, noise: Tensor | None) -> Any:
    """The shift was added. Encoding takes it away, decoding adds it."""
    z, c = drawn(vae.encode(image), noise), vae.config
    if standardizes(vae):
        return scaled(vae, z)
    return (z + (c.shift_factor or 0)) * c.scaling_factor


@misconception("5.4", "mean-and-std-ignored", replaces="encode", reads=SCALING)
def statistics_ignored(vae: Any, image: Tensor, noise: Tensor | None) -> Any:
    """latents_mean and latents_std were ignored. Where a configuration has them, each channel is
    brought to mean 0 and deviation 1 before the scaling factor."""
    z, c = drawn(vae.encode(image), noise), vae.config
    return (z - (c.shift_factor or 0)) * c.scaling_factor


@misconception("5.4", "multiplied-by-the-std", replaces="encode", reads=SCALING)
def multiplied_by_std(vae: Any, image: Tensor, noise: Tensor | None) -> Any:
    """The latents were multiplied by latents_std. Encoding divides by it; decoding multiplies."""
    z = scaled(vae, drawn(vae.encode(image), noise))
    return z * channelwise(vae.config.latents_std, z) ** 2 if standardizes(vae) else z


@misconception("5.4", "mean-after-scaling", replaces="encode", reads=SCALING)
def mean_after_scaling(vae: Any, image: Tensor, noise: Tensor | None) -> Any:
    """latents_mean was subtracted after the scaling. It is the mean of the encoder's own latents:
    subtract it first."""
    z, c = drawn(vae.encode(image), noise), vae.config
    if not standardizes(vae):
        return scaled(vae, z)
    spread = z * c.scaling_factor / channelwise(c.latents_std, z)
    return spread - channelwise(c.latents_mean, z)


@misconception("5.4", "statistics-along-the-width", replaces="encode", reads=SCALING)
def along_the_width(vae: Any, image: Tensor, noise: Tensor | None) -> Any:
    """latents_mean and latents_std were spread along the width: torch lines shapes up from the
    right. Give them the shape (1, C, 1, 1)."""
    z, c = drawn(vae.encode(image), noise), vae.config
    if not standardizes(vae):
        return scaled(vae, z)
    mean, std = channelwise(c.latents_mean, z).flatten(), channelwise(c.latents_std, z).flatten()
    return (z - mean) / std * c.scaling_factor


@misconception("5.4", "four-channels-assumed", replaces="encode", reads=SCALING)
def four_assumed(vae: Any, image: Tensor, noise: Tensor | None) -> Any:
    """latents_mean was given the shape (1, 4, 1, 1). There are as many channels as the VAE has:
    (1, -1, 1, 1)."""
    z, c = drawn(vae.encode(image), noise), vae.config
    if not standardizes(vae):
        return scaled(vae, z)
    mean = torch.tensor(c.latents_mean).view(1, 4, 1, 1).to(z)
    return (z - mean) / torch.tensor(c.latents_std).view(1, 4, 1, 1).to(z) * c.scaling_factor


@misconception("5.4", "shift-beside-the-mean", replaces="encode", reads=SCALING)
def shift_beside_the_mean(vae: Any, image: Tensor, noise: Tensor | None) -> Any:
    """Both the mean and the shift_factor were subtracted. With latents_mean and latents_std the
    shift plays no part."""
    z = drawn(vae.encode(image), noise)
    return scaled(vae, z - (vae.config.shift_factor or 0) if standardizes(vae) else z)


@misconception("5.4", "encoder-without-quant-conv", replaces="encode", reads=SCALING)
def bare_encoder(vae: Any, image: Tensor, noise: Tensor | None) -> Any:
    """vae.encoder was called directly, which leaves out the quant_conv behind it. vae.encode runs
    both."""
    return scaled(vae, drawn(vae.encoder(image), noise))


@misconception("5.4", "always-the-mode", replaces="encode", reads=SCALING)
def always_the_mode(vae: Any, image: Tensor, noise: Tensor | None) -> Any:
    """The noise was not used. With noise the latents are a draw from the posterior, as in image to
    image; only without it they are the mode."""
    return scaled(vae, drawn(vae.encode(image), None))


@misconception("5.4", "noise-after-scaling", replaces="encode", reads=SCALING)
def noise_after_scaling(vae: Any, image: Tensor, noise: Tensor | None) -> Any:
    """The noise was added to latents that were scaled already. Draw first; the scaling then applies
    to the whole draw."""
    both = vae.encode(image)
    mean, whole = drawn(both, None), drawn(both, noise)
    return scaled(vae, mean) + (whole - mean)


@misconception("5.4", "drawn-without-being-asked", replaces="encode", reads=SCALING)
def drawn_unasked(vae: Any, image: Tensor, noise: Tensor | None) -> Any:
    """Without noise this draws its own, from a fixed seed. None asks for the mode: nothing is
    drawn."""
    both = vae.encode(image)
    if noise is None:
        own = torch.Generator().manual_seed(0)
        noise = torch.randn(halves(both)[0].shape, generator=own).to(both)
    return scaled(vae, drawn(both, noise))


# 5.5


@misconception("5.5", "latents-not-unscaled", replaces="decode", reads=DECODING)
def not_unscaled(vae: Any, latents: Tensor) -> Any:
    """The decoder got the denoiser's latents as they are. Take the scaling back first: the picture
    is flat and grey without it."""
    return vae.decode(latents)


@misconception("5.5", "multiplied-by-the-scaling-factor", replaces="decode", reads=DECODING)
def multiplied_when_decoding(vae: Any, latents: Tensor) -> Any:
    """The latents were multiplied by the scaling factor once more. Encoding multiplies; decoding
    divides."""
    return vae.decode(unscaled(vae, latents * vae.config.scaling_factor**2))


@misconception("5.5", "unscaled-after-decoding", replaces="decode", reads=DECODING)
def unscaled_after(vae: Any, latents: Tensor) -> Any:
    """The image was divided by the scaling factor. It belongs to the latents: divide before the
    decoder sees them."""
    c = vae.config
    return vae.decode(unscaled(vae, latents * c.scaling_factor)) / c.scaling_factor


@misconception("5.5", "unscaling-of-stable-diffusion", replaces="decode", reads=DECODING)
def hard_coded_back(vae: Any, latents: Tensor) -> Any:
    """0.18215 was written into the code. It belongs to Stable Diffusion 1's VAE; read
    vae.config.scaling_factor."""
    return vae.decode(unscaled(vae, latents * vae.config.scaling_factor / 0.18215))


@misconception("5.5", "shift-not-added-back", replaces="decode", reads=DECODING)
def shift_not_added(vae: Any, latents: Tensor) -> Any:
    """The shift_factor was left out. Encoding took it away, so decoding adds it."""
    z = unscaled(vae, latents) if standardizes(vae) else latents / vae.config.scaling_factor
    return vae.decode(z)


@misconception("5.5", "shift-before-unscaling", replaces="decode", reads=DECODING)
def shift_before(vae: Any, latents: Tensor) -> Any:
    """The shift was added before the division. Encoding shifted first and scaled second, so
    decoding divides first: z / scale + shift."""
    c = vae.config
    z = unscaled(vae, latents)
    if not standardizes(vae):
        z = (latents + (c.shift_factor or 0)) / c.scaling_factor
    return vae.decode(z)


@misconception("5.5", "shift-subtracted", replaces="decode", reads=DECODING)
def shift_subtracted(vae: Any, latents: Tensor) -> Any:
    """The shift was subtracted once more. Decoding is the inverse of encoding: it adds."""
    c = vae.config
    z = unscaled(vae, latents)
    if not standardizes(vae):
        z = z - 2 * (c.shift_factor or 0)
    return vae.decode(z)


@misconception("5.5", "mean-and-std-not-undone", replaces="decode", reads=DECODING)
def statistics_not_undone(vae: Any, latents: Tensor) -> Any:
    """latents_mean and latents_std were ignored. Where a configuration has them, each channel gets
    its own deviation and mean back."""
    c = vae.config
    return vae.decode(latents / c.scaling_factor + (c.shift_factor or 0))


@misconception("5.5", "divided-by-the-std", replaces="decode", reads=DECODING)
def divided_by_std(vae: Any, latents: Tensor) -> Any:
    """The latents were divided by latents_std. Encoding divides by it; decoding multiplies."""
    z = latents
    if standardizes(vae):
        z = latents / channelwise(vae.config.latents_std, latents) ** 2
    return vae.decode(unscaled(vae, z))


@misconception("5.5", "mean-before-unscaling", replaces="decode", reads=DECODING)
def mean_before(vae: Any, latents: Tensor) -> Any:
    """latents_mean was added before the rest was undone. Encoding subtracted it first, so it comes
    back last."""
    c, z = vae.config, unscaled(vae, latents)
    if standardizes(vae):
        first = latents + channelwise(c.latents_mean, latents)
        z = first * channelwise(c.latents_std, latents) / c.scaling_factor
    return vae.decode(z)


@misconception("5.5", "four-channels-decoded", replaces="decode", reads=DECODING)
def four_decoded(vae: Any, latents: Tensor) -> Any:
    """latents_mean was given the shape (1, 4, 1, 1). There are as many channels as the VAE has:
    (1, -1, 1, 1)."""
    c, z = vae.config, unscaled(vae, latents)
    if standardizes(vae):
        mean = torch.tensor(c.latents_mean).view(1, 4, 1, 1).to(z)
        z = latents * torch.tensor(c.latents_std).view(1, 4, 1, 1).to(z) / c.scaling_factor + mean
    return vae.decode(z)


@misconception("5.5", "statistics-undone-along-the-width", replaces="decode", reads=DECODING)
def undone_along_the_width(vae: Any, latents: Tensor) -> Any:
    """latents_mean and latents_std were spread along the width: torch lines shapes up from the
    right. Give them the shape (1, C, 1, 1)."""
    c, z = vae.config, unscaled(vae, latents)
    if standardizes(vae):
        std, mean = torch.tensor(c.latents_std).to(z), torch.tensor(c.latents_mean).to(z)
        z = latents * std / c.scaling_factor + mean
    return vae.decode(z)


@misconception("5.5", "shift-and-mean-both-added", replaces="decode", reads=DECODING)
def shift_and_mean(vae: Any, latents: Tensor) -> Any:
    """Both the mean and the shift_factor were added. With latents_mean and latents_std the shift
    plays no part."""
    z = unscaled(vae, latents)
    if standardizes(vae):
        z = z + (vae.config.shift_factor or 0)
    return vae.decode(z)


@misconception("5.5", "decoder-without-post-quant-conv", replaces="decode", reads=DECODING)
def bare_decoder(vae: Any, latents: Tensor) -> Any:
    """vae.decoder was called directly, which leaves out the post_quant_conv in front of it.
    vae.decode runs both."""
    return vae.decoder(unscaled(vae, latents))


@misconception("5.5", "image-clamped", replaces="decode", reads=DECODING)
def image_clamped(vae: Any, latents: Tensor) -> Any:
    """The image was clamped here. decode returns what the decoder says; to_image clamps when it
    makes pixels."""
    return vae.decode(unscaled(vae, latents)).clamp(-1, 1)


@misconception("5.5", "image-from-zero", replaces="decode", reads=DECODING)
def image_from_zero(vae: Any, latents: Tensor) -> Any:
    """The image was brought to 0 to 1 here. decode returns about −1 to 1; to_image does the rest,
    and would do it twice."""
    return vae.decode(unscaled(vae, latents)) / 2 + 0.5


# 5.6


def counted(config: Config, height: int, width: int) -> tuple[int, int]:
    area, factor = height * width, factor_of(config)
    return config["in_channels"] * area, config["latent_channels"] * area // factor**2


Saved = tuple[float, int, int]


@misconception("5.6", "channels-not-counted", replaces="compression", reads=SAVED)
def channels_not_counted(config: Config, height: int, width: int, dtype: torch.dtype) -> Saved:
    """Only places were compared: the factor, squared. Each place holds in_channels numbers in the
    image and latent_channels in the latents."""
    image, latents = counted(config, height, width)
    return factor_of(config) ** 2, image * dtype.itemsize, latents * dtype.itemsize


@misconception("5.6", "four-bytes-each", replaces="compression", reads=SAVED)
def four_bytes(config: Config, height: int, width: int, dtype: torch.dtype) -> Saved:
    """Four bytes an element were assumed. The dtype says how many there are: float16 has two."""
    image, latents = counted(config, height, width)
    return image / latents, image * 4, latents * 4


@misconception("5.6", "bytes-of-the-file", replaces="compression", reads=SAVED)
def bytes_of_the_file(config: Config, height: int, width: int, dtype: torch.dtype) -> Saved:
    """The image was counted with one byte an element, as in a file. The encoder sees it as a tensor
    of the given dtype."""
    image, latents = counted(config, height, width)
    return image / latents, image, latents * dtype.itemsize


@misconception("5.6", "ratio-upside-down", replaces="compression", reads=SAVED)
def ratio_upside_down(config: Config, height: int, width: int, dtype: torch.dtype) -> Saved:
    """The ratio is turned round: image elements for each latent element, a number above 1 for every
    VAE that is worth its name."""
    image, latents = counted(config, height, width)
    return latents / image, image * dtype.itemsize, latents * dtype.itemsize


@misconception("5.6", "three-colours-assumed", replaces="compression", reads=SAVED)
def three_colours(config: Config, height: int, width: int, dtype: torch.dtype) -> Saved:
    """Three image channels were assumed. The configuration's in_channels says how many it has."""
    image, latents = counted(config | {"in_channels": 3}, height, width)
    return image / latents, image * dtype.itemsize, latents * dtype.itemsize


@misconception("5.6", "ratio-rounded-down", replaces="compression", reads=SAVED)
def ratio_rounded(config: Config, height: int, width: int, dtype: torch.dtype) -> Saved:
    """The ratio lost its fraction. It need not be a whole number: use /, not //."""
    image, latents = counted(config, height, width)
    return image // latents, image * dtype.itemsize, latents * dtype.itemsize


# 5.7


def refuse_odd(height: int, width: int) -> None:
    refuse(height, width, 2)


def patches(latents: Tensor) -> Tensor:
    *outer, h, w = latents.shape
    refuse_odd(h, w)
    return latents.view(*outer, h // 2, 2, w // 2, 2)


@misconception("5.7", "position-before-channel", replaces="pack", reads=PACKING)
def position_first(latents: Tensor) -> Tensor:
    """Within a token the position counts slowest and the channel fastest: that is DiT's order. Flux
    has the channel first, then row, then column."""
    return patches(latents).permute(0, 2, 4, 3, 5, 1).flatten(3).flatten(1, 2)


@misconception("5.7", "patch-turned-over", replaces="pack", reads=PACKING)
def patch_turned(latents: Tensor) -> Tensor:
    """Row and column changed places inside the patch. The column counts fastest."""
    return patches(latents).permute(0, 2, 4, 1, 5, 3).flatten(3).flatten(1, 2)


@misconception("5.7", "tokens-column-by-column", replaces="pack", reads=PACKING)
def column_by_column(latents: Tensor) -> Tensor:
    """The tokens run down the columns. They go row by row, as one reads."""
    return patches(latents).permute(0, 4, 2, 1, 3, 5).flatten(3).flatten(1, 2)


@misconception("5.7", "packed-without-permuting", replaces="pack", reads=PACKING)
def without_permuting(latents: Tensor) -> Tensor:
    """The latents were reshaped and nothing else, so a token holds a piece of one row of one
    channel. A patch is 2×2 places of all channels: split, permute, then flatten."""
    count, c, h, w = latents.shape
    refuse_odd(h, w)
    return latents.reshape(count, h * w // 4, 4 * c)


@misconception("5.7", "odd-edge-cut-off", replaces="pack", reads=PACKING)
def edge_cut_off(latents: Tensor) -> Tensor:
    """The last row or column of odd latents was dropped. Refuse them: half a patch is no token."""
    h, w = latents.shape[2:]
    even = latents[:, :, : h // 2 * 2, : w // 2 * 2]
    return torch.nn.functional.pixel_unshuffle(even, 2).flatten(2).mT


def put_back(tokens: Tensor, rows: int, columns: int, order: str) -> Tensor:
    b, features = len(tokens), tokens.shape[2]
    shape = {"cpq": (features // 4, 2, 2), "pqc": (2, 2, features // 4)}[order]
    grid = tokens.reshape(b, rows, columns, *shape)
    if order == "pqc":
        grid = grid.movedim(-1, 3)
    return grid.permute(0, 3, 1, 4, 2, 5).reshape(b, features // 4, 2 * rows, 2 * columns)


@misconception("5.7", "channel-read-fastest", replaces="unpack", reads=PACKING)
def channel_fastest(tokens: Tensor, height: int, width: int) -> Tensor:
    """The features were read with the channel counting fastest: DiT's order. Flux has channel, row,
    column."""
    refuse_odd(height, width)
    return put_back(tokens, height // 2, width // 2, "pqc")


@misconception("5.7", "unpacked-without-permuting", replaces="unpack", reads=PACKING)
def unpacked_flat(tokens: Tensor, height: int, width: int) -> Tensor:
    """The tokens were reshaped and nothing else. The patches have to be laid out again: split the
    features, permute, then flatten."""
    refuse_odd(height, width)
    return tokens.reshape(len(tokens), -1, height, width)


@misconception("5.7", "grid-turned-over", replaces="unpack", reads=PACKING)
def grid_turned(tokens: Tensor, height: int, width: int) -> Tensor:
    """The tokens were laid out column by column. They go row by row: height / 2 rows of
    width / 2."""
    refuse_odd(height, width)
    b, features = len(tokens), tokens.shape[2]
    grid = tokens.reshape(b, width // 2, height // 2, features // 4, 2, 2)
    return grid.permute(0, 3, 2, 4, 1, 5).reshape(b, features // 4, height, width)


@misconception("5.7", "sides-of-the-image", replaces="unpack", reads=PACKING)
def sides_of_the_image(tokens: Tensor, height: int, width: int) -> Tensor:
    """The sides were divided by 8, as if they were the image's. They are those of the latents.
    (FluxPipeline's own function does take pixels.)"""
    refuse_odd(height, width)
    return put_back(tokens, height // 16, width // 16, "cpq")


@misconception("5.7", "odd-sides-rounded", replaces="unpack", reads=PACKING)
def odd_sides_rounded(tokens: Tensor, height: int, width: int) -> Tensor:
    """Odd sides were rounded down. Refuse them: no packing makes such latents."""
    return put_back(tokens, height // 2, width // 2, "cpq")
