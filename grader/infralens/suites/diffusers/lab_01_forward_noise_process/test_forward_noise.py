"""Lab 01: the learner's forward process against DDPM, compute_snr and flow matching."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import pytest
import torch
from diffusers import DDPMScheduler, FlowMatchEulerDiscreteScheduler
from diffusers.schedulers.scheduling_ddpm import rescale_zero_terminal_snr
from torch import Tensor

from infralens.examiner import (
    Draw,
    assert_matches,
    assert_matches_formula,
    assert_property,
    assert_raises,
    library_function,
    todo,
)

SHAPES = {
    "images": (3, 4, 8, 12),
    "square": (4, 4, 4, 4),  # every axis is as long as the batch: a wrong broadcast is silent here
    "vectors": (5, 9),
    "video": (3, 4, 5, 6, 10),
}
HALF = {"float16": torch.float16, "bfloat16": torch.bfloat16}


def draw_table(draw: Draw) -> Any:
    """diffusers' own table near Stable Diffusion's, never with its T or its ends."""
    return DDPMScheduler(
        num_train_timesteps=draw.integer(500, 990),
        beta_start=draw.uniform(0.0005, 0.001),
        beta_end=draw.uniform(0.01, 0.015),
        beta_schedule=draw.choice(["linear", "scaled_linear"]),
    )


def draw_timesteps(draw: Draw, total: int, count: int) -> Tensor:
    """One timestep for each sample, all different: both ends of the table and some between."""
    inner = draw.sample(range(total // 10, total * 9 // 10), count - 2)
    return torch.tensor(draw.sample([0, total - 1, *inner], count), device=draw.device)


def draw_faint_table(draw: Draw) -> Tensor:
    """A table so gentle that its first six entries are 1 in float16 and in bfloat16."""
    faint = DDPMScheduler(
        num_train_timesteps=draw.integer(800, 990),
        beta_start=draw.uniform(1e-5, 2.4e-5),
        beta_end=draw.uniform(0.01, 0.015),
        beta_schedule="scaled_linear",
    )
    table: Tensor = faint.alphas_cumprod
    return table.to(draw.device)


def weights(timesteps: Tensor, table: Tensor, like: Tensor) -> tuple[Tensor, Tensor]:
    """The factors of signal and noise in float64, one pair a sample."""
    share = table.to(timesteps.device)[timesteps].double()
    share = share.view(-1, *(1 for _ in like.shape[1:]))
    return share.sqrt(), (1 - share).sqrt()


def noisy(original: Tensor, noise: Tensor, timesteps: Tensor, table: Tensor) -> Tensor:
    """Ho et al. 2020, equation 4, in float64."""
    signal, spread = weights(timesteps, table, original)
    return signal * original.double() + spread * noise.double()


def turned(original: Tensor, noise: Tensor, timesteps: Tensor, table: Tensor) -> Tensor:
    """Salimans and Ho 2022, section 4: v in float64."""
    signal, spread = weights(timesteps, table, original)
    return signal * noise.double() - spread * original.double()


def straight(original: Tensor, noise: Tensor, sigmas: Tensor) -> Tensor:
    """The straight line of flow matching in float64."""
    level = sigmas.double().view(-1, *(1 for _ in original.shape[1:]))
    return (1 - level) * original.double() + level * noise.double()


def cosine_betas(total: int) -> list[float]:
    """Nichol and Dhariwal 2021, equation 17, with the cap of diffusers."""

    def left(progress: float) -> float:
        return math.cos((progress + 0.008) / 1.008 * math.pi / 2) ** 2

    return [min(1 - left((i + 1) / total) / left(i / total), 0.999) for i in range(total)]


@todo("1.1")
@pytest.mark.parametrize("schedule", ["linear", "scaled_linear", "squaredcos_cap_v2"])
def test_each_schedule_is_that_of_the_library(candidate: Any, draw: Draw, schedule: str) -> None:
    """linear, scaled_linear and squaredcos_cap_v2 are DDPMScheduler's betas."""
    cosine = schedule == "squaredcos_cap_v2"
    # A long cosine schedule ends where float32 has no digits left: there a short one is asked for.
    total = draw.integer(8, 16) if cosine else draw.integer(500, 990)
    start, end = draw.uniform(0.0005, 0.001), draw.uniform(0.01, 0.015)
    answer = candidate.betas(schedule, total, start, end)

    def truth() -> Tensor:
        if cosine:
            return torch.tensor(cosine_betas(total), dtype=torch.float64)
        power = 1 if schedule == "linear" else 2
        low, high = start ** (1 / power), end ** (1 / power)
        return torch.linspace(low, high, total, dtype=torch.float64) ** power

    assert_matches(
        answer,
        library=lambda: (
            DDPMScheduler(total, beta_start=start, beta_end=end, beta_schedule=schedule).betas
        ),
        truth=truth,
        what=f"the {schedule} schedule",
    )


@todo("1.1")
@pytest.mark.parametrize("name", ["quadratic", "constant", "sqrt_linear"])
def test_an_unknown_schedule_is_refused(candidate: Any, draw: Draw, name: str) -> None:
    """A schedule of another name is a ValueError."""
    assert_raises(
        lambda: candidate.betas(name, draw.integer(20, 40), 0.001, 0.01),
        "ValueError",
        what=f"the schedule {name!r}",
    )


@todo("1.2")
def test_the_kept_shares_multiply(candidate: Any, draw: Draw) -> None:
    """alphas_cumprod is DDPMScheduler's for any betas."""
    betas = draw.tensor(draw.integer(100, 300), low=0.001, high=0.03)
    answer = candidate.alphas_cumprod(betas)

    def library() -> Tensor:
        table: Tensor = DDPMScheduler(len(betas), trained_betas=betas.tolist()).alphas_cumprod
        return table.to(draw.device)

    assert_matches(
        answer,
        library=library,
        truth=lambda: (1 - betas.double()).cumprod(0),
        what="alphas_cumprod",
    )


@todo("1.3")
@pytest.mark.parametrize("shape", SHAPES)
def test_each_sample_gets_its_own_noise_level(candidate: Any, draw: Draw, shape: str) -> None:
    """x_t is DDPMScheduler.add_noise's, for images, vectors and video."""
    library, size = draw_table(draw), SHAPES[shape]
    table = library.alphas_cumprod.to(draw.device)
    timesteps = draw_timesteps(draw, len(table), size[0])
    original, noise = draw.latents(*size), draw.latents(*size)
    answer = candidate.add_noise(original, noise, timesteps, table)
    assert_matches(
        answer,
        library=lambda: library.add_noise(original, noise, timesteps),
        truth=lambda: noisy(original, noise, timesteps, table),
        what="the noisy sample",
    )


@todo("1.3")
def test_a_timestep_outside_the_table_is_refused(candidate: Any, draw: Draw) -> None:
    """A timestep below 0 or not below T, anywhere in the batch, is a ValueError."""
    # On the CPU whatever the device: an index out of range would end a CUDA process.
    table = draw_table(draw).alphas_cumprod
    total = len(table)
    original, noise = draw.latents(4, 3, 5).cpu(), draw.latents(4, 3, 5).cpu()
    for outside in (-1, -draw.integer(2, 20), total, total + draw.integer(1, 20)):
        timesteps = draw_timesteps(draw, total, 4).cpu()
        timesteps[draw.integer(0, 3)] = outside
        assert_raises(
            partial(candidate.add_noise, original, noise, timesteps, table),
            "ValueError",
            what=f"timestep {outside} in a table of {total}",
        )


@todo("1.3", guards="half precision at every noise level, in the dtype of the sample")
@pytest.mark.parametrize("dtype", HALF)
def test_half_precision_samples_stay_in_half_precision(
    candidate: Any, draw: Draw, dtype: str
) -> None:
    """float16 and bfloat16 samples come back in their own dtype."""
    table, size = draw_table(draw).alphas_cumprod.to(draw.device), (4, 3, 6, 10)
    timesteps = draw_timesteps(draw, len(table), 4)
    original, noise = (draw.latents(*size, dtype=HALF[dtype]) for _ in range(2))
    answer = candidate.add_noise(original, noise, timesteps, table)
    assert_matches_formula(
        answer,
        computed=lambda: noisy(original, noise, timesteps, table).to(HALF[dtype]),
        truth=lambda: noisy(original, noise, timesteps, table),
        what="the noisy sample",
    )


@todo("1.3")
@pytest.mark.parametrize("dtype", HALF)
def test_faint_noise_survives_half_precision(candidate: Any, draw: Draw, dtype: str) -> None:
    """At t = 0 to 5 the noise is small, and it is there (DDPMScheduler.add_noise loses it)."""
    table, size = draw_faint_table(draw), (4, 3, 6, 10)
    timesteps = torch.tensor(draw.sample(range(6), 4), device=draw.device)
    noise = draw.latents(*size, dtype=HALF[dtype])
    original = torch.zeros_like(noise)  # nothing covers the noise
    answer = candidate.add_noise(original, noise, timesteps, table)
    assert_matches_formula(
        answer,
        computed=lambda: noisy(original, noise, timesteps, table).to(HALF[dtype]),
        truth=lambda: noisy(original, noise, timesteps, table),
        what="the noise at t = 0 to 5",
    )


@todo("1.4")
@pytest.mark.parametrize("shape", SHAPES)
def test_the_velocity_is_that_of_the_library(candidate: Any, draw: Draw, shape: str) -> None:
    """v is DDPMScheduler.get_velocity's, for images, vectors and video."""
    library, size = draw_table(draw), SHAPES[shape]
    table = library.alphas_cumprod.to(draw.device)
    timesteps = draw_timesteps(draw, len(table), size[0])
    original, noise = draw.latents(*size), draw.latents(*size)
    answer = candidate.velocity(original, noise, timesteps, table)
    assert_matches(
        answer,
        library=lambda: library.get_velocity(original, noise, timesteps),
        truth=lambda: turned(original, noise, timesteps, table),
        what="the velocity",
    )


@todo("1.4", guards="half precision at every noise level, in the dtype of the sample")
@pytest.mark.parametrize("dtype", HALF)
def test_half_precision_velocities_stay_in_half_precision(
    candidate: Any, draw: Draw, dtype: str
) -> None:
    """float16 and bfloat16 velocities come back in their own dtype."""
    table, size = draw_table(draw).alphas_cumprod.to(draw.device), (4, 3, 6, 10)
    timesteps = draw_timesteps(draw, len(table), 4)
    original, noise = (draw.latents(*size, dtype=HALF[dtype]) for _ in range(2))
    answer = candidate.velocity(original, noise, timesteps, table)
    assert_matches_formula(
        answer,
        computed=lambda: turned(original, noise, timesteps, table).to(HALF[dtype]),
        truth=lambda: turned(original, noise, timesteps, table),
        what="the velocity",
    )


@todo("1.4")
@pytest.mark.parametrize("dtype", HALF)
def test_the_faint_part_of_v_survives_half_precision(
    candidate: Any, draw: Draw, dtype: str
) -> None:
    """At t = 0 to 5 a little of the data belongs to v (DDPMScheduler.get_velocity loses it)."""
    table, size = draw_faint_table(draw), (4, 3, 6, 10)
    timesteps = torch.tensor(draw.sample(range(6), 4), device=draw.device)
    original = draw.latents(*size, dtype=HALF[dtype])
    noise = torch.zeros_like(original)  # nothing covers the data
    answer = candidate.velocity(original, noise, timesteps, table)
    assert_matches_formula(
        answer,
        computed=lambda: turned(original, noise, timesteps, table).to(HALF[dtype]),
        truth=lambda: turned(original, noise, timesteps, table),
        what="the velocity at t = 0 to 5",
    )


@todo("1.5")
@pytest.mark.parametrize("end", ["clean", "noisy"])
def test_the_ratio_is_that_of_min_snr_training(candidate: Any, draw: Draw, end: str) -> None:
    """snr is compute_snr of diffusers.training_utils, at the clean and the noisy end."""
    library, count = draw_table(draw), draw.integer(4, 7)
    table = library.alphas_cumprod.to(draw.device)
    total = len(table)
    # Not at the very clean end: there 1 − ᾱ has few digits, and a right formula that is written
    # 1 / (1 / ᾱ − 1) differs by more than rounding usually explains.
    clean = [t for t in range(total // 3) if float(table[t]) < 0.97]
    # The end itself is always among them: where ratios are capped, or kept from zero, it shows.
    last, *inner = clean if end == "clean" else range(total - 1, total // 2, -1)
    chosen = draw.sample([last, *draw.sample(inner, count - 1)], count)
    timesteps = torch.tensor(chosen, device=draw.device)
    answer = candidate.snr(timesteps, table)
    compute_snr = library_function("training_utils.py", "compute_snr")
    share = table[timesteps].double()
    assert_matches(
        answer,
        library=lambda: compute_snr(library, timesteps),
        truth=lambda: share / (1 - share),
        what="the signal-to-noise ratio",
    )


def rescaled(betas: Tensor) -> Tensor:
    """Lin et al. 2023, algorithm 1, in float64."""
    root = (1 - betas.double()).cumprod(0).sqrt()
    share = ((root - root[-1]) * root[0] / (root[0] - root[-1])) ** 2
    return 1 - torch.cat([share[:1], share[1:] / share[:-1]])


@todo("1.6")
def test_the_last_step_leaves_no_signal(candidate: Any, draw: Draw) -> None:
    """zero_terminal_snr gives the betas of rescale_zero_terminal_snr."""
    # A short and strong schedule: neighbours differ clearly, so little is lost in subtraction.
    betas = DDPMScheduler(
        num_train_timesteps=draw.integer(24, 40),
        beta_start=draw.uniform(0.005, 0.02),
        beta_end=draw.uniform(0.1, 0.2),
        beta_schedule=draw.choice(["linear", "scaled_linear"]),
    ).betas.to(draw.device)
    answer = candidate.zero_terminal_snr(betas)
    assert_matches(
        answer,
        library=lambda: rescale_zero_terminal_snr(betas),
        truth=lambda: rescaled(betas),
        what="the rescaled betas",
    )


@todo("1.7")
@pytest.mark.parametrize("shape", SHAPES)
def test_the_flow_path_is_a_straight_line(candidate: Any, draw: Draw, shape: str) -> None:
    """x is FlowMatchEulerDiscreteScheduler.scale_noise's, for images, vectors and video."""
    size, total = SHAPES[shape], draw.integer(500, 990)
    library = FlowMatchEulerDiscreteScheduler(total, shift=draw.uniform(1.5, 4))
    places = draw_timesteps(draw, total, size[0]).cpu()
    sigmas = library.sigmas[places].to(draw.device)
    original, noise = draw.latents(*size), draw.latents(*size)
    answer = candidate.flow_noise(original, noise, sigmas)
    assert_matches(
        answer,
        library=lambda: library.scale_noise(original, library.timesteps[places], noise),
        truth=lambda: straight(original, noise, sigmas),
        what="the noisy sample",
    )


@todo("1.7", guards="half precision at every noise level, in the dtype of the sample")
@pytest.mark.parametrize("dtype", HALF)
def test_half_precision_flow_samples_stay_in_half_precision(
    candidate: Any, draw: Draw, dtype: str
) -> None:
    """float16 and bfloat16 samples come back in their own dtype."""
    size, sigmas = (4, 3, 6, 10), draw.tensor(4, low=0.05, high=0.95)
    original, noise = (draw.latents(*size, dtype=HALF[dtype]) for _ in range(2))
    answer = candidate.flow_noise(original, noise, sigmas)
    assert_matches_formula(
        answer,
        computed=lambda: straight(original, noise, sigmas).to(HALF[dtype]),
        truth=lambda: straight(original, noise, sigmas),
        what="the noisy sample",
    )


@todo("1.7")
@pytest.mark.parametrize("dtype", HALF)
def test_the_last_trace_of_data_survives_half_precision(
    candidate: Any, draw: Draw, dtype: str
) -> None:
    """Just below sigma = 1 some data is left (FlowMatchEulerDiscreteScheduler loses it)."""
    size, sigmas = (4, 3, 6, 10), 1 - draw.tensor(4, low=1e-4, high=2.2e-4)
    original = draw.latents(*size, dtype=HALF[dtype])
    noise = torch.zeros_like(original)  # nothing covers the data
    answer = candidate.flow_noise(original, noise, sigmas)
    assert_matches_formula(
        answer,
        computed=lambda: straight(original, noise, sigmas).to(HALF[dtype]),
        truth=lambda: straight(original, noise, sigmas),
        what="the trace of the data near sigma = 1",
    )


@todo("1.8")
@pytest.mark.parametrize("prediction_type", ["epsilon", "sample"])
def test_noise_and_data_are_targets_as_they_are(
    candidate: Any, draw: Draw, prediction_type: str
) -> None:
    """epsilon asks for the noise, sample for the clean sample, each in its dtype."""
    table = draw_table(draw).alphas_cumprod.to(draw.device)
    timesteps = draw_timesteps(draw, len(table), 3)
    for dtype in (torch.float32, torch.bfloat16):
        original, noise = (draw.latents(3, 4, 6, 10, dtype=dtype) for _ in range(2))
        assert_property(
            candidate.training_target(original, noise, timesteps, table, prediction_type),
            equals=partial(torch.clone, noise if prediction_type == "epsilon" else original),
            what=f"the target of {prediction_type}",
        )


@todo("1.8")
@pytest.mark.parametrize("shape", SHAPES)
def test_the_v_target_is_the_velocity(candidate: Any, draw: Draw, shape: str) -> None:
    """v_prediction asks for DDPMScheduler.get_velocity's v, for images, vectors and video."""
    library, size = draw_table(draw), SHAPES[shape]
    table = library.alphas_cumprod.to(draw.device)
    timesteps = draw_timesteps(draw, len(table), size[0])
    original, noise = draw.latents(*size), draw.latents(*size)
    answer = candidate.training_target(original, noise, timesteps, table, "v_prediction")
    assert_matches(
        answer,
        library=lambda: library.get_velocity(original, noise, timesteps),
        truth=lambda: turned(original, noise, timesteps, table),
        what="the target of v_prediction",
    )


@todo("1.8")
@pytest.mark.parametrize("dtype", HALF)
def test_the_v_target_survives_half_precision(candidate: Any, draw: Draw, dtype: str) -> None:
    """The faint part of v is there at t = 0 to 5, in the dtype of the sample."""
    table, size = draw_faint_table(draw), (4, 3, 6, 10)
    timesteps = torch.tensor(draw.sample(range(6), 4), device=draw.device)
    original = draw.latents(*size, dtype=HALF[dtype])
    noise = torch.zeros_like(original)
    answer = candidate.training_target(original, noise, timesteps, table, "v_prediction")
    assert_matches_formula(
        answer,
        computed=lambda: turned(original, noise, timesteps, table).to(HALF[dtype]),
        truth=lambda: turned(original, noise, timesteps, table),
        what="the target of v_prediction at t = 0 to 5",
    )


@todo("1.8")
@pytest.mark.parametrize("name", ["flow_prediction", "velocity", "noise"])
def test_an_unknown_prediction_type_is_refused(candidate: Any, draw: Draw, name: str) -> None:
    """Another prediction_type is a ValueError."""
    table = draw_table(draw).alphas_cumprod.to(draw.device)
    timesteps = draw_timesteps(draw, len(table), 3)
    original, noise = draw.latents(3, 2, 4), draw.latents(3, 2, 4)
    assert_raises(
        lambda: candidate.training_target(original, noise, timesteps, table, name),
        "ValueError",
        what=f"the prediction_type {name!r}",
    )
