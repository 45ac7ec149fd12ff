"""Lab 02: the learner's reverse updates against DDIM and DDPM, one step at a time."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from diffusers import DDIMScheduler, DDPMScheduler
from torch import Tensor

from infralens.examiner import (
    Draw,
    assert_equals,
    assert_matches,
    assert_matches_formula,
    assert_raises,
    todo,
    unpack,
)

PREDICTIONS = ("epsilon", "sample", "v_prediction")
VARIANCES = ("fixed_small", "fixed_large")
HALF = torch.bfloat16


def draw_config(draw: Draw, prediction_type: str = "epsilon") -> dict[str, Any]:
    """A configuration near Stable Diffusion's, never quite its defaults. Latents: no clipping."""
    return {
        "num_train_timesteps": draw.choice([500, 840, 1000]),
        "beta_start": draw.uniform(0.0005, 0.001),
        "beta_end": draw.uniform(0.01, 0.015),
        "beta_schedule": draw.choice(["linear", "scaled_linear"]),
        "prediction_type": prediction_type,
        "clip_sample": False,
    }


def draw_shape(draw: Draw) -> tuple[int, ...]:
    """Images or video."""
    return draw.choice([(3, 4, 6, 10), (2, 4, 9, 7), (2, 4, 3, 5, 6)])


def clear(level: Tensor) -> bool:
    """Neither almost clean nor almost noise, nor half and half: the two weights differ."""
    return 0.04 < float(level) < 0.42 or 0.58 < float(level) < 0.9


def apart(now: Tensor, following: Tensor) -> bool:
    """Two clear levels with a step between them that is more than a trifle."""
    return clear(now) and clear(following) and float(now) < 0.85 * float(following)


def draw_stride(draw: Draw, table: Tensor) -> tuple[int, int, int]:
    """(n, t, prev_t) of a step by T // n timesteps, which is how DDIM finds its way."""
    total = len(table)
    while True:
        n, t = draw.integer(3, 12), draw.integer(1, total - 1)
        prev_t = t - total // n
        if prev_t > 0 and apart(table[t], table[prev_t]):
            return n, t, prev_t


def draw_jump(draw: Draw, table: Tensor) -> tuple[int, int]:
    """(t, prev_t) of any jump over many timesteps."""
    while True:
        prev_t, t = sorted(draw.sample(range(1, len(table)), 2))
        if apart(table[t], table[prev_t]):
            return t, prev_t


def ddim(config: dict[str, Any], n: int) -> Any:
    """diffusers' DDIM scheduler at the beginning of a run of n steps."""
    library = DDIMScheduler.from_config(config)
    library.set_timesteps(n)
    return library


def ddpm(config: dict[str, Any], *timesteps: int) -> Any:
    """diffusers' DDPM scheduler on a run along these timesteps."""
    library = DDPMScheduler.from_config(config)
    library.set_timesteps(timesteps=list(timesteps))
    return library


def parts(kind: str, output: Tensor, sample: Tensor, level: Tensor) -> tuple[Tensor, Tensor]:
    """(x0, epsilon) in float64: x = signal * x0 + noise * epsilon, solved for what is missing."""
    signal, noise = level.double().sqrt(), (1 - level.double()).sqrt()
    x, y = sample.double(), output.double()
    if kind == "epsilon":
        return (x - noise * y) / signal, y
    clean = y if kind == "sample" else signal * x - noise * y
    return clean, (x - signal * clean) / noise


@todo("2.1")
@pytest.mark.parametrize("prediction_type", PREDICTIONS)
def test_each_prediction_implies_a_clean_sample(
    candidate: Any, draw: Draw, prediction_type: str
) -> None:
    """epsilon, sample and v_prediction give DDIM's guess of the clean sample, in their dtype."""
    library = ddim(draw_config(draw, prediction_type), 4)
    _, t, _ = draw_stride(draw, library.alphas_cumprod)
    level, shape = library.alphas_cumprod[t], draw_shape(draw)

    def judge(output: Tensor, sample: Tensor) -> None:
        assert_matches(
            candidate.predict_original(output, sample, level, prediction_type),
            library=lambda: library.step(output, t, sample).pred_original_sample,
            truth=lambda: parts(prediction_type, output, sample, level)[0],
            what="the guess of x0",
        )

    sample, output = draw.latents(*shape), draw.latents(*shape)
    judge(output, sample)
    judge(output.to(HALF), sample.to(HALF))


UNKNOWN = ("flow_prediction", "score", "noise_and_variance")


@todo("2.1")
@pytest.mark.parametrize("kind", UNKNOWN)
def test_no_clean_sample_from_an_unknown_prediction(candidate: Any, draw: Draw, kind: str) -> None:
    """Another prediction type is a ValueError: the tensor does not tell what it means."""
    sample, level = draw.latents(2, 3, 4, 5), torch.tensor(draw.uniform(0.2, 0.8))
    assert_raises(
        lambda: candidate.predict_original(sample, sample, level, kind),
        "ValueError",
        what=f"prediction_type {kind!r}",
    )


@todo("2.2")
@pytest.mark.parametrize("prediction_type", PREDICTIONS)
def test_each_prediction_implies_the_noise(
    candidate: Any, draw: Draw, prediction_type: str
) -> None:
    """epsilon, sample and v_prediction give the noise that DDIM keeps: x without its clean part."""
    config = draw_config(draw, prediction_type)
    table = DDIMScheduler.from_config(config).alphas_cumprod
    n, t, prev_t = draw_stride(draw, table)
    library, shape = ddim(config, n), draw_shape(draw)
    sample, output = draw.latents(*shape), draw.latents(*shape)
    answer = candidate.predict_epsilon(output, sample, table[t], prediction_type)

    def noise_of_the_library() -> Tensor:
        """What its step holds beside the clean sample."""
        stepped, level = library.step(output, t, sample), table[prev_t].double()
        rest = stepped.prev_sample.double() - level.sqrt() * stepped.pred_original_sample.double()
        noise: Tensor = (rest / (1 - level).sqrt()).float()
        return noise

    assert_matches(
        answer,
        library=noise_of_the_library,
        truth=lambda: parts(prediction_type, output, sample, table[t])[1],
        what="the noise",
    )
    # The library rounds the two terms whose difference is the noise: in half precision too coarse.
    half = output.to(HALF), sample.to(HALF)
    assert_matches_formula(
        candidate.predict_epsilon(*half, table[t], prediction_type),
        computed=lambda: parts(prediction_type, *half, table[t])[1].to(HALF),
        truth=lambda: parts(prediction_type, *half, table[t])[1],
        what="the noise",
    )


@todo("2.2")
@pytest.mark.parametrize("kind", UNKNOWN)
def test_no_noise_from_an_unknown_prediction(candidate: Any, draw: Draw, kind: str) -> None:
    """Another prediction type is a ValueError here too."""
    sample, level = draw.latents(2, 3, 4, 5), torch.tensor(draw.uniform(0.2, 0.8))
    assert_raises(
        lambda: candidate.predict_epsilon(sample, sample, level, kind),
        "ValueError",
        what=f"prediction_type {kind!r}",
    )


def ddim_truth(
    kind: str, output: Tensor, sample: Tensor, levels: tuple[Tensor, Tensor], eta: float, z: Tensor
) -> Tensor:
    """Song et al. 2021, equations 12 and 16, in float64."""
    clean, epsilon = parts(kind, output, sample, levels[0])
    now, following = levels[0].double(), levels[1].double()
    variance = eta**2 * (1 - following) / (1 - now) * (1 - now / following)
    direction = (1 - following - variance).sqrt() * epsilon
    return following.sqrt() * clean + direction + variance.sqrt() * z.double()


@todo("2.3")
@pytest.mark.parametrize("prediction_type", PREDICTIONS)
def test_a_step_without_randomness_keeps_the_noise(
    candidate: Any, draw: Draw, prediction_type: str
) -> None:
    """With eta 0 the old noise is used again at the new level, with and without `noise`."""
    config = draw_config(draw, prediction_type)
    table = DDIMScheduler.from_config(config).alphas_cumprod
    n, t, prev_t = draw_stride(draw, table)
    library, shape, levels = ddim(config, n), draw_shape(draw), (table[t], table[prev_t])
    sample, output, z = draw.latents(*shape), draw.latents(*shape), draw.latents(*shape)

    def judge(output: Tensor, sample: Tensor, noise: Tensor | None) -> None:
        assert_matches(
            candidate.ddim_step(output, sample, *levels, prediction_type, 0.0, noise),
            library=lambda: library.step(output, t, sample).prev_sample,
            truth=lambda: ddim_truth(prediction_type, output, sample, levels, 0.0, z),
            what="the stepped sample",
        )

    judge(output, sample, None)
    judge(output.to(HALF), sample.to(HALF), z.to(HALF))


def draw_eta(draw: Draw, now: Tensor, following: Tensor) -> float:
    """A share of randomness with sigma below 1 - alpha_bar_prev: no mistake hides behind NaN."""
    left, whole = 1 - following, (1 - following) / (1 - now) * (1 - now / following)
    return draw.uniform(0.3, 0.8) * min(1.0, float(left / whole.sqrt()))


@todo("2.3")
@pytest.mark.parametrize("prediction_type", PREDICTIONS)
@pytest.mark.parametrize("share", ["a part", "all"])
def test_eta_exchanges_old_noise_for_new(
    candidate: Any, draw: Draw, share: str, prediction_type: str
) -> None:
    """eta scales the deviation of the fresh noise, and the old noise gives way to it."""
    config = draw_config(draw, prediction_type)
    table = DDIMScheduler.from_config(config).alphas_cumprod
    n, t, prev_t = draw_stride(draw, table)
    library, shape, levels = ddim(config, n), draw_shape(draw), (table[t], table[prev_t])
    eta = 1.0 if share == "all" else draw_eta(draw, *levels)
    sample, output, noise = draw.latents(*shape), draw.latents(*shape), draw.latents(*shape)
    answer = candidate.ddim_step(output, sample, *levels, prediction_type, eta, noise)
    assert_matches(
        answer,
        library=lambda: library.step(output, t, sample, eta=eta, variance_noise=noise).prev_sample,
        truth=lambda: ddim_truth(prediction_type, output, sample, levels, eta, noise),
        what="the stepped sample",
    )


@todo("2.3", guards="the end of a run, where 1 - alpha_bar_prev is 0 and may not be divided by")
@pytest.mark.parametrize("share", ["none", "a part"])
def test_the_last_ddim_step_lands_on_the_guess(candidate: Any, draw: Draw, share: str) -> None:
    """At alpha_bar_prev 1 no noise is left, old or new: the result is the guess of x0."""
    config = draw_config(draw, draw.choice(PREDICTIONS)) | {"set_alpha_to_one": True}
    kind, n, shape = config["prediction_type"], draw.integer(3, 9), draw_shape(draw)
    library, t = ddim(config, n), draw.integer(20, config["num_train_timesteps"] // n - 1)
    levels = (library.alphas_cumprod[t], torch.tensor(1.0))
    eta = 0.0 if share == "none" else draw.uniform(0.3, 0.8)
    sample, output, noise = draw.latents(*shape), draw.latents(*shape), draw.latents(*shape)
    answer = candidate.ddim_step(output, sample, *levels, kind, eta, noise)
    assert_matches(
        answer,
        library=lambda: library.step(output, t, sample, eta=eta, variance_noise=noise).prev_sample,
        truth=lambda: parts(kind, output, sample, levels[0])[0],
        what="the last sample",
    )


def ddpm_truth(
    kind: str,
    output: Tensor,
    sample: Tensor,
    levels: tuple[Tensor, Tensor],
    variance_type: str,
    z: Tensor,
) -> Tensor:
    """Ho et al. 2020, equation 7 and section 3.2, in float64, for any jump between two levels."""
    clean, _ = parts(kind, output, sample, levels[0])
    now, following = levels[0].double(), levels[1].double()
    beta = (following - now) / following
    mean = following.sqrt() * beta / (1 - now) * clean
    mean = mean + (now / following).sqrt() * (1 - following) / (1 - now) * sample.double()
    variance = beta if variance_type == "fixed_large" else (1 - following) / (1 - now) * beta
    return mean + variance.sqrt() * z.double()


def draw_fresh(draw: Draw, shape: tuple[int, ...]) -> tuple[Tensor, int]:
    """Standard normal noise, and the seed from which the library draws the same."""
    seed = draw.integer(0, 10**6)
    noise = torch.randn(shape, generator=torch.Generator().manual_seed(seed))
    return noise.to(draw.device), seed


@todo("2.4")
@pytest.mark.parametrize("variance_type", VARIANCES)
# "sample" first: there the output is not the noise, and mistakes that confuse them differ.
@pytest.mark.parametrize("prediction_type", ["sample", "epsilon", "v_prediction"])
def test_a_jump_over_many_timesteps_is_ddpms(
    candidate: Any, draw: Draw, prediction_type: str, variance_type: str
) -> None:
    """Mean and variance follow from the two levels, however many timesteps lie between them."""
    config = draw_config(draw, prediction_type) | {"variance_type": variance_type}
    table, shape = DDPMScheduler.from_config(config).alphas_cumprod, draw_shape(draw)
    t, prev_t = draw_jump(draw, table)
    library, (noise, seed) = ddpm(config, t, prev_t), draw_fresh(draw, shape)
    sample, output = draw.latents(*shape), draw.latents(*shape)
    answer = candidate.ddpm_step(
        output, sample, t, prev_t, table, prediction_type, variance_type, noise
    )
    assert_matches(
        answer,
        library=lambda: (
            library.step(
                output, t, sample, generator=torch.Generator().manual_seed(seed)
            ).prev_sample
        ),
        truth=lambda: ddpm_truth(
            prediction_type, output, sample, (table[t], table[prev_t]), variance_type, noise
        ),
        what="the stepped sample",
    )


@todo("2.4", guards="half precision, and DDPM with fixed_small is the live DDIM with eta 1")
def test_a_ddpm_step_is_a_ddim_step_with_eta_one(candidate: Any, draw: Draw) -> None:
    """With fixed_small the two schedulers take one and the same step, here in bfloat16."""
    config = draw_config(draw, draw.choice(PREDICTIONS))
    table, kind = DDIMScheduler.from_config(config).alphas_cumprod, config["prediction_type"]
    n, t, prev_t = draw_stride(draw, table)
    library, shape, levels = ddim(config, n), draw_shape(draw), (table[t], table[prev_t])
    sample, output, noise = (draw.latents(*shape, dtype=HALF) for _ in range(3))
    answer = candidate.ddpm_step(output, sample, t, prev_t, table, kind, "fixed_small", noise)
    assert_matches(
        answer,
        library=lambda: library.step(output, t, sample, eta=1.0, variance_noise=noise).prev_sample,
        truth=lambda: ddim_truth(kind, output, sample, levels, 1.0, noise),
        what="the stepped sample",
    )


@todo("2.4", guards="the end of a run as the live library has it, at t = 0")
@pytest.mark.parametrize("variance_type", VARIANCES)
def test_the_last_ddpm_step_adds_no_noise(candidate: Any, draw: Draw, variance_type: str) -> None:
    """From timestep 0 to -1 the result is the mean alone."""
    config = draw_config(draw, draw.choice(PREDICTIONS)) | {"variance_type": variance_type}
    library, kind, shape = ddpm(config, 0), config["prediction_type"], draw_shape(draw)
    table, (noise, seed) = library.alphas_cumprod, draw_fresh(draw, shape)
    sample, output = draw.latents(*shape), draw.latents(*shape)
    answer = candidate.ddpm_step(output, sample, 0, -1, table, kind, variance_type, noise)
    assert_matches(
        answer,
        library=lambda: (
            library.step(
                output, 0, sample, generator=torch.Generator().manual_seed(seed)
            ).prev_sample
        ),
        truth=lambda: parts(kind, output, sample, table[0])[0],
        what="the last sample",
    )


@todo("2.4")
def test_the_last_step_adds_no_noise_from_any_timestep(candidate: Any, draw: Draw) -> None:
    """prev_t -1 ends the run for every t; diffusers asks for t > 0 instead, and adds noise."""
    config = draw_config(draw, draw.choice(PREDICTIONS))
    table, kind = DDPMScheduler.from_config(config).alphas_cumprod, config["prediction_type"]
    t, shape = draw.integer(20, len(table) // 4), draw_shape(draw)
    sample, output, noise = draw.latents(*shape), draw.latents(*shape), draw.latents(*shape)
    answer = candidate.ddpm_step(output, sample, t, -1, table, kind, "fixed_large", noise)

    assert_matches_formula(
        answer,
        computed=lambda: ddpm(config, t).step(output, t, sample).pred_original_sample,
        truth=lambda: parts(kind, output, sample, table[t])[0],
        what="the last sample",
    )


def level_of_the_library(library: Any, t: int) -> Tensor:
    """The alpha_bar that DDIM steps to from t: without noise a step only rescales the sample."""
    x = torch.ones(1, 1, 1, 1, dtype=torch.float64)
    ratio = library.step(torch.zeros_like(x), t, x).prev_sample.item() ** 2
    return torch.tensor(ratio * library.alphas_cumprod[t].item(), dtype=torch.float32)


@todo("2.5")
@pytest.mark.parametrize("set_alpha_to_one", [True, False])
@pytest.mark.parametrize("place", ["at timestep 0", "later"])
def test_inside_the_schedule_the_table_is_read(
    candidate: Any, draw: Draw, place: str, set_alpha_to_one: bool
) -> None:
    """From timestep 0 on, alpha_bar is the table's entry, whatever the flag says."""
    n = draw.integer(5, 20)
    library = ddim(draw_config(draw) | {"set_alpha_to_one": set_alpha_to_one}, n)
    table = library.alphas_cumprod
    stride = len(table) // n
    prev_t = 0 if place == "at timestep 0" else draw.integer(20, len(table) - 1 - stride)
    answer = candidate.previous_alpha_bar(table, prev_t, set_alpha_to_one)
    assert_matches(
        answer,
        library=lambda: level_of_the_library(library, prev_t + stride),
        truth=lambda: table[prev_t].double(),
        what=f"alpha_bar at prev_t {prev_t}",
    )


@todo("2.5")
@pytest.mark.parametrize("set_alpha_to_one", [True, False])
@pytest.mark.parametrize("place", ["one before", "further"])
def test_before_the_schedule_the_flag_decides(
    candidate: Any, draw: Draw, place: str, set_alpha_to_one: bool
) -> None:
    """Any negative prev_t means the clean end: 1, or the table's first entry."""
    n = draw.integer(5, 20)
    library = ddim(draw_config(draw) | {"set_alpha_to_one": set_alpha_to_one}, n)
    table = library.alphas_cumprod
    stride = len(table) // n
    prev_t = -1 if place == "one before" else draw.integer(1 - stride, -2)
    answer = candidate.previous_alpha_bar(table, prev_t, set_alpha_to_one)
    assert_matches(
        answer,
        library=lambda: level_of_the_library(library, prev_t + stride),
        truth=lambda: 1.0 if set_alpha_to_one else table[0].double(),
        what=f"alpha_bar at prev_t {prev_t}",
    )


@todo("2.6")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["float32", "bfloat16"])
def test_clipping_bounds_the_guess(candidate: Any, draw: Draw, dtype: torch.dtype) -> None:
    """clip_prediction is what clip_sample with clip_sample_range does to x0, in its dtype."""
    bound, x0 = (
        draw.choice([draw.uniform(0.4, 0.8), draw.uniform(1.3, 2)]),
        draw.latents(3, 3, 6, 8, dtype=dtype),
    )
    config = draw_config(draw, "sample") | {"clip_sample": True, "clip_sample_range": bound}
    library, t = ddim(config, 5), draw.integer(100, 400)
    assert_matches(
        candidate.clip_prediction(x0, bound),
        library=lambda: library.step(x0, t, x0).pred_original_sample,
        truth=lambda: x0.double().clamp(-bound, bound),
        what="the clipped guess",
    )


def draw_guesses(draw: Draw, *shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """A batch in which one sample is pale, one oversaturated, and the others in between."""
    scales = draw.sample([0.45, 1.5, 6.0, 1.1][: shape[0]], shape[0])
    scale = torch.tensor(scales, device=draw.device).reshape(-1, *[1] * (len(shape) - 1))
    return (draw.latents(*shape) * scale).to(dtype)


def draw_ratio(draw: Draw, count: int) -> float:
    """A quantile that falls between two of `count` values, nearer to one of them."""
    below = draw.integer(int(0.85 * count), int(0.95 * count) - 1)
    return (below + draw.choice([0.3, 0.7])) / (count - 1)


def threshold_truth(x0: Tensor, ratio: float, max_value: float) -> Tensor:
    """Saharia et al. 2022, section 2.3, sample by sample in float64."""
    done = []
    for one in x0.double():
        bound = torch.quantile(one.abs().flatten(), ratio).clamp(1, max_value)
        done.append(one.clamp(-bound, bound) / bound)
    return torch.stack(done)


@todo("2.6", guards="float32, video, and a batch as long as the width, where broadcasting hides")
@pytest.mark.parametrize(
    "shape",
    [(3, 3, 9, 14), (3, 2, 4, 5, 7), (4, 3, 9, 4)],
    ids=["images", "video", "as many samples as columns"],
)
def test_each_sample_sets_its_own_bound(candidate: Any, draw: Draw, shape: tuple[int, ...]) -> None:
    """The quantile over all values of a sample, within [1, max_value], bounds and divides it."""
    x0, ratio = draw_guesses(draw, *shape), draw_ratio(draw, torch.Size(shape[1:]).numel())
    max_value = draw.uniform(3.5, 5)
    library = DDPMScheduler(
        thresholding=True, dynamic_thresholding_ratio=ratio, sample_max_value=max_value
    )
    assert_matches(
        candidate.dynamic_threshold(x0, ratio, max_value),
        library=lambda: library._threshold_sample(x0),
        truth=lambda: threshold_truth(x0, ratio, max_value),
        what="the thresholded guess",
    )


@todo("2.6")
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=["float16", "bfloat16"])
def test_half_precision_is_thresholded_in_float32(
    candidate: Any, draw: Draw, dtype: torch.dtype
) -> None:
    """A half precision guess comes back in half precision, computed in float32."""
    x0, ratio = draw_guesses(draw, 3, 4, 6, 10, dtype=dtype), draw_ratio(draw, 240)
    max_value = draw.uniform(3.5, 5)
    library = DDIMScheduler(
        thresholding=True, dynamic_thresholding_ratio=ratio, sample_max_value=max_value
    )
    assert_matches(
        candidate.dynamic_threshold(x0, ratio, max_value),
        library=lambda: library._threshold_sample(x0),
        truth=lambda: threshold_truth(x0, ratio, max_value),
        what="the thresholded guess",
    )


def draw_output(draw: Draw) -> Tensor:
    """A network's answer with twice the channels: noise, then numbers between -1 and 1."""
    shape = draw.choice([(2, 3, 6, 10), (3, 4, 8, 5)])
    return torch.cat([draw.latents(*shape), draw.tensor(*shape, low=-1, high=1)], dim=1)


def draw_variance_jump(draw: Draw, table: Tensor) -> tuple[int, int]:
    """A jump whose two fixed variances are far apart, so that the way between them shows."""
    while True:
        t, prev_t = draw_jump(draw, table)
        if 0.1 < (1 - table[prev_t]) / (1 - table[t]) < 0.5:
            return t, prev_t


@todo("2.7")
def test_the_first_half_of_the_channels_is_the_noise(candidate: Any, draw: Draw) -> None:
    """epsilon is the first C of 2C channels, unchanged."""
    table, output = DDPMScheduler.from_config(draw_config(draw)).alphas_cumprod, draw_output(draw)
    t, prev_t = draw_variance_jump(draw, table)
    answer = candidate.learned_variance(output, t, prev_t, table)
    epsilon, _ = unpack(answer, "epsilon", "variance")
    assert_equals(epsilon, value=output[:, : output.shape[1] // 2], what="epsilon")


@todo("2.7")
def test_the_variance_lies_between_the_fixed_ones(candidate: Any, draw: Draw) -> None:
    """The second half places it between fixed_small and fixed_large, evenly in their logarithms."""
    config, output = draw_config(draw) | {"variance_type": "learned_range"}, draw_output(draw)
    table, half = DDPMScheduler.from_config(config).alphas_cumprod, output.shape[1] // 2
    t, prev_t = draw_variance_jump(draw, table)
    library = ddpm(config, t, prev_t)
    answer = candidate.learned_variance(output, t, prev_t, table)
    _, variance = unpack(answer, "epsilon", "variance")

    def truth() -> Tensor:
        """Nichol and Dhariwal 2021, equation 15, in float64."""
        now, following = table[t].double(), table[prev_t].double()
        large = 1 - now / following
        small = large * (1 - following) / (1 - now)
        share = (output[:, half:].double() + 1) / 2
        variance: Tensor = small * (large / small) ** share
        return variance

    assert_matches(
        variance,
        library=lambda: library._get_variance(t, predicted_variance=output[:, half:]).exp(),
        truth=truth,
        what="the variance",
    )
