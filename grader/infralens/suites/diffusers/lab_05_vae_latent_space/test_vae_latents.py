"""Lab 05: the learner's VAE arithmetic against AutoencoderKL, VaeImageProcessor and pipelines."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable
from functools import lru_cache, partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from diffusers import AutoencoderKL
from diffusers.image_processor import VaeImageProcessor
from diffusers.models.autoencoders.vae import DiagonalGaussianDistribution

from infralens.examiner import (
    Draw,
    LearnerError,
    Namespace,
    as_pixels,
    assert_equals,
    assert_matches,
    assert_matches_formula,
    assert_raises,
    remote,
    todo,
    unpack,
)
from infralens.suites.networks import seeded
from infralens.suites.releases import since

LEVELS = {"ordinary": (-4.0, 3.0), "above": (10.0, 35.0), "below": (-45.0, -20.0)}
CONVENTIONS = ("scaled", "shifted", "standardized", "standardized with a shift")
SIDES = ("height", "width")


@lru_cache
def network(blocks: int, channels: int, colors: int, device: str) -> Any:
    """A tiny AutoencoderKL in eval mode; its images go well beyond −1 and 1."""
    with seeded(blocks):
        vae = AutoencoderKL(
            in_channels=colors,
            out_channels=colors,
            block_out_channels=(8, 16, 16, 16)[:blocks],
            down_block_types=("DownEncoderBlock2D",) * blocks,
            up_block_types=("UpDecoderBlock2D",) * blocks,
            latent_channels=channels,
            norm_num_groups=4,
            force_upcast=False,
        )
    vae = vae.eval().requires_grad_(False).to(device)
    vae.decoder.conv_out.weight.mul_(3)
    return vae


@lru_cache
def network_in_float64(vae: Any) -> Any:
    return copy.deepcopy(vae).double()


def in_float64(vae: Any) -> Any:
    """The same VAE, computing in float64."""
    exact = network_in_float64(vae)
    exact.register_to_config(**config_of(vae))
    return exact


def config_of(vae: Any) -> dict[str, Any]:
    """The fields of the configuration, under diffusers' names."""
    return {name: value for name, value in vae.config.items() if not name.startswith("_")}


class LentVae:
    """The VAE as the learner gets it: tensors in, tensors out."""

    def __init__(self, vae: Any) -> None:
        self.vae, self.config = vae, Namespace(config_of(vae))

    def encode(self, x: torch.Tensor) -> torch.Tensor:
        moments: torch.Tensor = self.vae.encode(x).latent_dist.parameters
        return moments

    def decode(self, z: torch.Tensor) -> torch.Tensor:
        image: torch.Tensor = self.vae.decode(z).sample
        return image

    def encoder(self, x: torch.Tensor) -> torch.Tensor:
        hidden: torch.Tensor = self.vae.encoder(x)
        return hidden

    def decoder(self, z: torch.Tensor) -> torch.Tensor:
        hidden: torch.Tensor = self.vae.decoder(z)
        return hidden


def lent(vae: Any) -> Any:
    """What is passed to `encode` and `decode`."""
    methods = ["encode", "decode", "encoder", "decoder"]
    return remote(LentVae(vae), attributes=["config"], methods=methods)


# 5.1


def draw_sides(draw: Draw, multiple: int) -> tuple[int, int]:
    """Height and width, different multiples of a number."""
    rows, columns = draw.sample(range(3, 7), 2)
    return rows * multiple, columns * multiple


@todo("5.1")
@pytest.mark.parametrize("blocks", [2, 3, 4])
@pytest.mark.parametrize("sides", ["multiples of 8", "multiples of the factor"])
def test_the_shape_is_that_of_the_encoded_images(
    candidate: Any, draw: Draw, sides: str, blocks: int
) -> None:
    """The shape is the one that AutoencoderKL.encode gives, for encoders of 2, 3 and 4 blocks."""
    vae = network(blocks, draw.choice([7, 9, 11]), draw.choice([1, 2, 3]), str(draw.device))
    height, width = draw_sides(draw, 8 if sides == "multiples of 8" else 2 ** (blocks - 1))
    batch = draw.choice([2, 3, 7])
    answer = candidate.latent_shape(config_of(vae), batch, height, width)
    images = torch.zeros(batch, vae.config.in_channels, height, width, device=draw.device)
    assert_equals(
        answer,
        library=lambda: tuple(vae.encode(images).latent_dist.mean.shape),
        what="the shape of the latents",
    )


def draw_indivisible(draw: Draw, blocks: int, side: str) -> tuple[dict[str, Any], int, int]:
    """A configuration and two sides of which one is half a latent too long."""
    factor = 2 ** (blocks - 1)
    height, width = draw_sides(draw, factor)
    extra = factor // 2
    vae = network(blocks, 7, 2, str(draw.device))
    return config_of(vae), height + extra * (side == "height"), width + extra * (side == "width")


@todo("5.1")
@pytest.mark.parametrize("side", SIDES)
def test_a_side_that_does_not_divide_is_refused(candidate: Any, draw: Draw, side: str) -> None:
    """A height or a width that does not divide is a ValueError."""
    config, height, width = draw_indivisible(draw, draw.choice([3, 4]), side)
    assert_raises(
        lambda: candidate.latent_shape(config, 2, height, width),
        "ValueError",
        what=f"an image of {height}×{width} with {len(config['block_out_channels'])} blocks",
    )


def refusal_of(call: Callable[[], Any]) -> str:
    """The text of what the call raises; empty when it raises nothing."""
    try:
        call()
    except LearnerError as error:
        if error.not_started:
            raise
        return error.raised.text
    return ""


@todo("5.1")
@pytest.mark.parametrize(("blocks", "side"), [(3, "height"), (4, "width")])
def test_the_refusal_names_the_multiple(candidate: Any, draw: Draw, blocks: int, side: str) -> None:
    """The ValueError's text says which number both sides must be a multiple of."""
    config, height, width = draw_indivisible(draw, blocks, side)
    image = f"an image of {height}×{width} with {blocks} blocks"
    assert_raises(lambda: candidate.latent_shape(config, 2, height, width), what=image)
    text = refusal_of(lambda: candidate.latent_shape(config, 2, height, width))
    factor = 2 ** (blocks - 1)
    named = [int(number) for number in re.findall(r"\d+", text[:1000])]
    others = [number for number in named if number not in (height, width)]
    assert_equals(
        [factor] if factor in others else others,
        value=[factor],
        what=f"the multiple in the refusal of {image}",
    )


# 5.2


def pixels(draw: Draw, *shape: int) -> Any:
    """Random pixels, black and white among them."""
    image = draw.tensor(*shape, low=0, high=256).cpu().to(torch.uint8).numpy()
    image.reshape(-1)[:2] = 0, 255
    return image


@todo("5.2")
@pytest.mark.parametrize("axes", ["HWC", "NHWC"])
def test_pixels_become_numbers_from_minus_one_to_one(candidate: Any, draw: Draw, axes: str) -> None:
    """The encoder's input is the one VaeImageProcessor.preprocess makes of PIL images."""
    image = pixels(draw, 6, 9, 3) if axes == "HWC" else pixels(draw, 4, 6, 9, 3)
    batch = image.reshape(-1, 6, 9, 3)
    processor = VaeImageProcessor(vae_scale_factor=1)
    assert_matches(
        candidate.to_model_range(image),
        library=lambda: processor.preprocess(processor.numpy_to_pil(batch / 255)),
        truth=lambda: batch.transpose(0, 3, 1, 2) / 127.5 - 1,
        what="the encoder's input",
    )


@todo("5.2")
def test_the_decoded_tensor_becomes_pixels(candidate: Any, draw: Draw) -> None:
    """The image is the one VaeImageProcessor.postprocess makes, beyond −1 and 1 as well."""
    # No value lies near the middle between two pixels: rounding is never in doubt.
    levels = draw.tensor(2, 3, 10, 7, low=-60, high=315).round()
    decoded = (levels + draw.tensor(2, 3, 10, 7, low=-0.4, high=0.4)) / 127.5 - 1
    processor = VaeImageProcessor(vae_scale_factor=1)
    assert_equals(
        as_pixels(candidate.to_image(decoded)),
        library=lambda: torch.from_numpy(
            np.stack([np.array(image) for image in processor.postprocess(decoded, "pil")])
        ),
        what="the pixels",
    )


# 5.3


def draw_moments(draw: Draw, level: str) -> torch.Tensor:
    """Moments of three images whose width is 3 too; log variances within or beyond the clamp."""
    channels = draw.choice([2, 4, 6])
    low, high = LEVELS[level]
    mean, logvar = (
        draw.latents(3, channels, 5, 3),
        draw.tensor(3, channels, 5, 3, low=low, high=high),
    )
    return torch.cat([mean, logvar], dim=1)


def mean_and_logvar(moments: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The two halves in float64, the second one clamped."""
    mean, logvar = moments.double().chunk(2, dim=1)
    return mean, logvar.clamp(-30, 20)


@todo("5.3")
@pytest.mark.parametrize("level", LEVELS)
def test_the_posterior_is_a_mean_and_a_deviation(candidate: Any, draw: Draw, level: str) -> None:
    """posterior gives DiagonalGaussianDistribution's mean and std, within the clamp and beyond."""
    moments = draw_moments(draw, level)
    mean, std = unpack(candidate.posterior(moments), "mean", "std")
    library = DiagonalGaussianDistribution(moments)
    assert_matches(
        mean,
        library=lambda: library.mean,
        truth=lambda: mean_and_logvar(moments)[0],
        what="the mean",
    )
    assert_matches(
        std,
        library=lambda: library.std,
        truth=lambda: (mean_and_logvar(moments)[1] / 2).exp(),
        what="the standard deviation",
    )


def draw_noise(draw: Draw, *shape: int) -> tuple[torch.Tensor, Callable[[], torch.Generator]]:
    """Standard normal noise, and the generator from which the library draws the same."""
    seed = draw.integer(0, 2**31 - 1)

    def generator() -> torch.Generator:
        return torch.Generator().manual_seed(seed)

    return torch.randn(shape, generator=generator()).to(draw.device), generator


@todo("5.3")
@pytest.mark.parametrize("level", ["ordinary", "above"])
def test_a_sample_is_the_mean_and_scaled_noise(candidate: Any, draw: Draw, level: str) -> None:
    """sample gives what DiagonalGaussianDistribution.sample draws with the same noise."""
    moments = draw_moments(draw, level)
    noise, generator = draw_noise(draw, 3, moments.shape[1] // 2, 5, 3)

    def truth() -> torch.Tensor:
        mean, logvar = mean_and_logvar(moments)
        return mean + (logvar / 2).exp() * noise.double()

    assert_matches(
        candidate.sample(moments, noise),
        library=lambda: DiagonalGaussianDistribution(moments).sample(generator()),
        truth=truth,
        what="the sample",
    )


@todo("5.3")
def test_the_mode_is_the_mean(candidate: Any, draw: Draw) -> None:
    """mode gives DiagonalGaussianDistribution.mode: nothing is drawn."""
    moments = draw_moments(draw, "ordinary")
    assert_matches(
        candidate.mode(moments),
        library=lambda: DiagonalGaussianDistribution(moments).mode(),
        truth=lambda: mean_and_logvar(moments)[0],
        what="the mode",
    )


@todo("5.3")
@pytest.mark.parametrize("level", LEVELS)
def test_kl_is_one_number_an_image(candidate: Any, draw: Draw, level: str) -> None:
    """kl gives DiagonalGaussianDistribution.kl, within the clamp and beyond."""
    moments = draw_moments(draw, level)

    def truth() -> torch.Tensor:
        mean, logvar = mean_and_logvar(moments)
        return (mean**2 + logvar.exp() - 1 - logvar).sum(dim=(1, 2, 3)) / 2

    assert_matches(
        candidate.kl(moments),
        library=lambda: DiagonalGaussianDistribution(moments).kl(),
        truth=truth,
        what="the divergence of each image",
    )


@todo("5.3")
def test_a_standard_normal_posterior_has_no_divergence(candidate: Any, draw: Draw) -> None:
    """With mean 0 and variance 1 the divergence is 0, and an image alone has one of its own."""
    moments = draw_moments(draw, "ordinary")
    moments[1] = 0

    def truth(moments: torch.Tensor) -> torch.Tensor:
        mean, logvar = mean_and_logvar(moments)
        return (mean**2 + logvar.exp() - 1 - logvar).sum(dim=(1, 2, 3)) / 2

    for some, what in (
        (moments, "the divergences, one of a standard normal image"),
        (moments[2:], "the divergence of one image alone"),
    ):
        assert_matches(
            candidate.kl(some),
            library=DiagonalGaussianDistribution(some).kl,
            truth=partial(truth, some),
            what=what,
        )


# 5.4 and 5.5


def draw_vae(draw: Draw, convention: str, channels: int = 4) -> Any:
    """A VAE with fresh constants, none of them a well-known one."""
    constants: dict[str, Any] = {
        "scaling_factor": draw.uniform(0.4, 0.85),
        "shift_factor": draw.uniform(0.3, 0.9) if "shift" in convention else None,
        "latents_mean": None,
        "latents_std": None,
    }
    if convention.startswith("standardized"):
        constants["latents_mean"] = [draw.uniform(0.3, 1.5) for _ in range(channels)]
        constants["latents_std"] = [draw.uniform(1.3, 3.0) for _ in range(channels)]
    vae = network(2, channels, 3, str(draw.device))
    vae.register_to_config(**constants)
    return vae


def per_channel(numbers: list[float], like: torch.Tensor) -> torch.Tensor:
    return torch.tensor(numbers, dtype=like.dtype, device=like.device).reshape(1, -1, 1, 1)


def normalized(config: Any, z: torch.Tensor) -> torch.Tensor:
    """The encoder's latents as the denoiser sees them, in z's dtype."""
    factor: float = config.scaling_factor
    if config.latents_mean is not None:
        mean, std = per_channel(config.latents_mean, z), per_channel(config.latents_std, z)
        return (z - mean) * factor / std
    return (z - float(config.shift_factor or 0)) * factor


def denormalized(config: Any, z: torch.Tensor) -> torch.Tensor:
    """The denoiser's latents as the decoder wants them, in z's dtype."""
    factor: float = config.scaling_factor
    if config.latents_mean is not None:
        mean, std = per_channel(config.latents_mean, z), per_channel(config.latents_std, z)
        return z * std / factor + mean
    return z / factor + float(config.shift_factor or 0)


def encoded(vae: Any, image: torch.Tensor) -> torch.Tensor:
    """The posterior's means, scaled by the formula."""
    return normalized(vae.config, vae.encode(image).latent_dist.mean)


def decoded(vae: Any, latents: torch.Tensor) -> torch.Tensor:
    """The image of latents that are unscaled by the formula."""
    image: torch.Tensor = vae.decode(denormalized(vae.config, latents)).sample
    return image


class ModeOf:
    """A VAE whose encoder answers with the mode; pipelines take such `latents` as they are."""

    def __init__(self, vae: Any) -> None:
        self.vae, self.config = vae, vae.config

    def encode(self, x: torch.Tensor) -> Any:
        return SimpleNamespace(latents=self.vae.encode(x).latent_dist.mode())


def latents_of_a_pipeline(
    vae: Any, convention: str, image: torch.Tensor, generator: torch.Generator | None
) -> torch.Tensor:
    """Flux' or Stable Diffusion XL's own encoding of an image; the mode without a generator."""
    from diffusers import FluxImg2ImgPipeline, StableDiffusionXLImg2ImgPipeline

    pipe = SimpleNamespace(vae=vae if generator else ModeOf(vae))
    if convention == "shifted":
        shifted: torch.Tensor = FluxImg2ImgPipeline._encode_vae_image(pipe, image, generator)
        return shifted
    count, dtype, device = len(image), image.dtype, image.device
    latents: torch.Tensor = StableDiffusionXLImg2ImgPipeline.prepare_latents(
        pipe, image, None, count, 1, dtype, device, generator, add_noise=False
    )
    return latents


def draw_images(draw: Draw) -> torch.Tensor:
    """Four images whose latents have four channels and are four wide: no broadcast is refused."""
    return draw.tensor(4, 3, 12, 8, low=-1, high=1)


@todo("5.4")
@pytest.mark.parametrize("convention", CONVENTIONS)
def test_the_mode_is_scaled_as_the_configuration_says(
    candidate: Any, draw: Draw, convention: str
) -> None:
    """Without noise the latents are the pipelines' own, for every set of constants."""
    vae, image = draw_vae(draw, convention), draw_images(draw)
    assert_matches(
        candidate.encode(lent(vae), image, None),
        library=lambda: latents_of_a_pipeline(vae, convention, image, None),
        truth=lambda: encoded(in_float64(vae), image.double()),
        what=f"the latents, {convention}",
    )


@todo("5.4")
@pytest.mark.parametrize("convention", CONVENTIONS[:3])
def test_noise_draws_from_the_posterior(candidate: Any, draw: Draw, convention: str) -> None:
    """With noise the latents are a draw from the posterior, scaled afterwards."""
    vae, image = draw_vae(draw, convention), draw_images(draw)
    noise, generator = draw_noise(draw, 4, 4, 6, 4)

    def truth() -> torch.Tensor:
        moments = in_float64(vae).encode(image.double()).latent_dist.parameters
        mean, logvar = mean_and_logvar(moments)
        return normalized(vae.config, mean + (logvar / 2).exp() * noise.double())

    assert_matches(
        candidate.encode(lent(vae), image, noise),
        library=lambda: latents_of_a_pipeline(vae, convention, image, generator()),
        truth=truth,
        what=f"the drawn latents, {convention}",
    )


@todo("5.4")
def test_encode_takes_any_number_of_channels(candidate: Any, draw: Draw) -> None:
    """latents_mean and latents_std hold a number for each channel, not always four."""
    # The pipelines cannot be asked: Stable Diffusion XL's assume four channels.
    vae = draw_vae(draw, "standardized", channels=6)
    image = draw.tensor(3, 3, 8, 14, low=-1, high=1)
    assert_matches_formula(
        candidate.encode(lent(vae), image, None),
        computed=lambda: encoded(vae, image),
        truth=lambda: encoded(in_float64(vae), image.double()),
        what="latents with 6 channels",
    )


def image_of_a_pipeline(vae: Any, convention: str, latents: torch.Tensor) -> torch.Tensor:
    """What Flux or Stable Diffusion XL decodes, before it is made into pixels."""
    from diffusers import FluxPipeline
    from diffusers.modular_pipelines import PipelineState
    from diffusers.modular_pipelines.flux.decoders import FluxDecodeStep
    from diffusers.modular_pipelines.stable_diffusion_xl.decoders import StableDiffusionXLDecodeStep

    as_it_is = VaeImageProcessor(do_normalize=False)
    state = PipelineState()
    if convention == "shifted" and not since("0.42"):  # its step takes tokens and unpacks them
        _, _, height, width = latents.shape
        state.set("height", height)
        state.set("width", width)
        latents = FluxPipeline._pack_latents(latents, *latents.shape)
    state.set("latents", latents)
    state.set("output_type", "pt")
    step = FluxDecodeStep() if convention == "shifted" else StableDiffusionXLDecodeStep()
    step(SimpleNamespace(vae=vae, image_processor=as_it_is, vae_scale_factor=1), state)
    image: torch.Tensor = state.get("images")
    return image


@todo("5.5")
@pytest.mark.parametrize("convention", CONVENTIONS)
def test_the_scaling_is_taken_back_before_decoding(
    candidate: Any, draw: Draw, convention: str
) -> None:
    """The image is the one that the pipelines decode, for every set of constants."""
    vae, latents = draw_vae(draw, convention), 3 * draw.latents(4, 4, 6, 4)  # a clamp is seen
    assert_matches(
        candidate.decode(lent(vae), latents),
        library=lambda: image_of_a_pipeline(vae, convention, latents),
        truth=lambda: decoded(in_float64(vae), latents.double()),
        what=f"the image, {convention}",
    )


@todo("5.5")
def test_decode_takes_any_number_of_channels(candidate: Any, draw: Draw) -> None:
    """latents_mean and latents_std hold a number for each channel, not always four."""
    # The pipelines cannot be asked: Stable Diffusion XL's assume four channels.
    vae, latents = draw_vae(draw, "standardized", channels=6), draw.latents(3, 6, 4, 7)
    assert_matches_formula(
        candidate.decode(lent(vae), latents),
        computed=lambda: decoded(vae, latents),
        truth=lambda: decoded(in_float64(vae), latents.double()),
        what="the image of latents with 6 channels",
    )


# 5.6


@todo("5.6")
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_elements_and_bytes_are_those_of_real_tensors(
    candidate: Any, draw: Draw, dtype: str
) -> None:
    """The ratio and the bytes are those of an image tensor and of AutoencoderKL's latents."""
    # No ratio is a whole number, and no two mistakes come to the same one.
    blocks, colors, channels = draw.choice([3, 4]), draw.choice([1, 2, 4]), draw.choice([7, 9, 11])
    vae, kind = network(blocks, channels, colors, str(draw.device)), getattr(torch, dtype)
    height, width = draw_sides(draw, 2 ** (blocks - 1))
    answer = candidate.compression(config_of(vae), height, width, kind)
    ratio, before, after = unpack(answer, "ratio", "image bytes", "latent bytes")

    def tensors() -> tuple[torch.Tensor, torch.Tensor]:
        image = torch.zeros(1, colors, height, width, device=draw.device)
        return image.to(kind), vae.encode(image).latent_dist.mean.to(kind)

    def size(tensor: torch.Tensor) -> int:
        return tensor.numel() * tensor.element_size()

    factor = 2 ** (blocks - 1)
    assert_matches(
        ratio,
        library=lambda: tensors()[0].numel() / tensors()[1].numel(),
        truth=lambda: colors * factor**2 / channels,
        what="the ratio of the elements",
    )
    assert_equals(before, library=lambda: size(tensors()[0]), what="the bytes of the image")
    assert_equals(after, library=lambda: size(tensors()[1]), what="the bytes of the latents")


# 5.7


def draw_grid(draw: Draw, channels: int | None = None) -> tuple[int, int, int, int]:
    """Batch, channels, and two even sides that differ."""
    rows, columns = draw.sample(range(2, 6), 2)
    return draw.choice([2, 3]), channels or draw.choice([2, 3, 5, 6]), 2 * rows, 2 * columns


@todo("5.7")
def test_patches_become_tokens_in_the_order_of_flux(candidate: Any, draw: Draw) -> None:
    """pack gives FluxPipeline's tokens, to the bit."""
    from diffusers import FluxPipeline

    batch, channels, height, width = draw_grid(draw)
    latents = draw.latents(batch, channels, height, width)
    assert_equals(
        candidate.pack(latents),
        library=lambda: FluxPipeline._pack_latents(latents, batch, channels, height, width),
        what="the tokens",
    )


@todo("5.7")
@pytest.mark.parametrize("channels", [4, None], ids=["four channels", "another number"])
def test_tokens_become_latents_again(candidate: Any, draw: Draw, channels: int | None) -> None:
    """unpack gives FluxPipeline's latents, to the bit; the sides are those of the latents."""
    from diffusers import FluxPipeline

    batch, depth, height, width = draw_grid(draw, channels)
    tokens = draw.latents(batch, height // 2 * (width // 2), 4 * depth)
    assert_equals(
        candidate.unpack(tokens, height, width),
        library=lambda: FluxPipeline._unpack_latents(tokens, height, width, vae_scale_factor=1),
        what="the latents",
    )


@todo("5.7")
@pytest.mark.parametrize("side", SIDES)
def test_odd_latents_are_not_packed(candidate: Any, draw: Draw, side: str) -> None:
    """pack refuses an odd height or width with a ValueError."""
    batch, channels, height, width = draw_grid(draw)
    latents = draw.latents(batch, channels, height + (side == "height"), width + (side == "width"))
    assert_raises(
        lambda: candidate.pack(latents), "ValueError", what=f"latents of {tuple(latents.shape)}"
    )


@todo("5.7")
@pytest.mark.parametrize("side", SIDES)
def test_tokens_do_not_become_odd_latents(candidate: Any, draw: Draw, side: str) -> None:
    """unpack refuses an odd height or width with a ValueError."""
    batch, channels, height, width = draw_grid(draw)
    tokens = draw.latents(batch, height // 2 * (width // 2), 4 * channels)
    height, width = height + (side == "height"), width + (side == "width")
    assert_raises(
        lambda: candidate.unpack(tokens, height, width),
        "ValueError",
        what=f"latents of {height}×{width}",
    )
