"""Lab 03: the learner's scheduler against DDIM, Euler, Euler ancestral, Heun and flow matching."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from diffusers import (
    DDIMScheduler,
    DPMSolverMultistepScheduler,
    EulerAncestralDiscreteScheduler,
    EulerDiscreteScheduler,
    FlowMatchEulerDiscreteScheduler,
    HeunDiscreteScheduler,
    PNDMScheduler,
)
from torch import Tensor

from infralens.examiner import (
    Draw,
    assert_equals,
    assert_matches,
    assert_matches_formula,
    assert_property,
    assert_raises,
    fetch,
    keep,
    library_function,
    todo,
    unpack,
)

SPACINGS = ("leading", "linspace", "trailing")
PREDICTIONS = ("epsilon", "v_prediction")
CLASSES = {
    "EulerDiscreteScheduler": EulerDiscreteScheduler,
    "DDIMScheduler": DDIMScheduler,
    "HeunDiscreteScheduler": HeunDiscreteScheduler,
    "PNDMScheduler": PNDMScheduler,
    "DPMSolverMultistepScheduler": DPMSolverMultistepScheduler,
}


def draw_config(draw: Draw, spacing: str, prediction_type: str = "epsilon") -> dict[str, Any]:
    """A configuration near Stable Diffusion's, never quite its defaults."""
    return {
        "num_train_timesteps": draw.choice([500, 840, 900]),
        "beta_start": draw.uniform(0.0005, 0.001),
        "beta_end": draw.uniform(0.01, 0.015),
        "beta_schedule": draw.choice(["linear", "scaled_linear"]),
        "prediction_type": prediction_type,
        "timestep_spacing": spacing,
        "steps_offset": draw.integer(1, 4),
    }


def euler(config: dict[str, Any], n: int) -> Any:
    """diffusers' own Euler scheduler at the beginning of a run."""
    library = EulerDiscreteScheduler.from_config(config)
    library.set_timesteps(n)
    return library


def draw_steps(draw: Draw, total: int, spacing: str) -> int:
    """A number of steps that divides neither T nor T - 1 and leaves no rounding in doubt."""
    while True:
        n = draw.integer(3, 60)
        exact = {
            "leading": np.arange(n) * float(total // n),
            "linspace": np.linspace(0, total - 1, n),
            "trailing": total - np.arange(n) * (total / n),
        }[spacing]
        library = DDIMScheduler(num_train_timesteps=total, timestep_spacing=spacing)
        library.set_timesteps(n)
        clear = np.abs(exact - np.floor(exact) - 0.5).min() > 1e-3
        whole = total % n == 0 or (total - 1) % (n - 1) == 0
        if clear and not whole and len(library.timesteps) == n and library.timesteps.min() >= 0:
            return n


@todo("3.1", guards="runs of many steps are the live library's, in every spacing")
@pytest.mark.parametrize("spacing", SPACINGS)
def test_each_spacing_visits_the_timesteps_of_ddim(
    candidate: Any, draw: Draw, spacing: str
) -> None:
    """Each spacing gives DDIMScheduler's timesteps; the offset is leading's alone."""
    total = draw.choice([500, 840, 900])
    n = draw_steps(draw, total, spacing)
    offset = draw.integer(1, total - 1 - (n - 1) * (total // n)) if spacing == "leading" else 3

    def library() -> Any:
        scheduler = DDIMScheduler(
            num_train_timesteps=total, timestep_spacing=spacing, steps_offset=offset
        )
        scheduler.set_timesteps(n)
        return scheduler.timesteps

    assert_equals(
        candidate.timesteps(total, n, spacing, offset), library=library, what="the schedule"
    )


@todo("3.1", guards="a run of one step, where n - 1 is nothing to divide by")
@pytest.mark.parametrize("spacing", SPACINGS)
def test_a_run_of_one_step_has_one_timestep(candidate: Any, draw: Draw, spacing: str) -> None:
    """n = 1 is DDIMScheduler's too: linspace then begins, and ends, at 0."""
    total, offset = draw.choice([500, 840, 900]), draw.integer(1, 9)

    def library() -> Any:
        scheduler = DDIMScheduler(
            num_train_timesteps=total, timestep_spacing=spacing, steps_offset=offset
        )
        scheduler.set_timesteps(1)
        return scheduler.timesteps

    answer = candidate.timesteps(total, 1, spacing, offset)
    assert_equals(answer, library=library, what="the schedule of one step")


@todo("3.1", guards="a misspelt spacing is refused, not guessed")
@pytest.mark.parametrize("name", ["uniform", "Leading", "even"])
def test_an_unknown_spacing_is_refused(candidate: Any, draw: Draw, name: str) -> None:
    """A spacing of another name is a ValueError."""
    assert_raises(
        lambda: candidate.timesteps(1000, draw.integer(5, 20), name, 0),
        "ValueError",
        what=f"the spacing {name!r}",
    )


@todo("3.1")
@pytest.mark.parametrize("spacing", SPACINGS)
def test_more_steps_than_training_had_are_refused(candidate: Any, draw: Draw, spacing: str) -> None:
    """n > T is a ValueError."""
    total = draw.integer(20, 60)
    assert_raises(
        lambda: candidate.timesteps(total, total + 1, spacing, 0),
        "ValueError",
        what=f"{total + 1} {spacing} steps out of {total}",
    )


@todo("3.2")
@pytest.mark.parametrize("steps", ["whole", "fractional"])
def test_sigmas_follow_the_timesteps(candidate: Any, draw: Draw, steps: str) -> None:
    """sigma is interpolated linearly between training timesteps and ends in 0, as Euler's is."""
    # Few training steps: the table bends, and interpolating something else than sigma shows.
    total = draw.integer(24, 40)
    # Not only halves between two timesteps: there it is all one which of them comes first.
    n = draw.choice([n for n in range(5, 20) if 2 * (total - 1) % (n - 1)])
    spacing = "linspace" if steps == "fractional" else "leading"
    beta_end = draw.uniform(0.2, 0.3)
    library = EulerDiscreteScheduler(
        total,
        beta_start=0.02,
        beta_end=beta_end,
        timestep_spacing=spacing,
        steps_offset=1,  # so that the last level of a run is not the first of the table
    )
    library.set_timesteps(n)
    table = ((1 - library.alphas_cumprod.double()) / library.alphas_cumprod.double()).sqrt()
    at = library.timesteps.double().numpy()
    answer = candidate.sigmas(library.alphas_cumprod, library.timesteps)
    assert_matches(
        answer,
        library=lambda: library.sigmas,
        truth=lambda: np.append(np.interp(at, np.arange(total), table.numpy()), 0.0),
        what="the sigmas",
    )


def karras_truth(low: float, high: float, n: int, rho: float) -> np.ndarray[Any, Any]:
    """Karras et al. 2022, equation 5, in float64, with the 0 at the end."""
    ramp = np.linspace(0, 1, n)
    top, bottom = high ** (1 / rho), low ** (1 / rho)
    return np.append((top + ramp * (bottom - top)) ** rho, 0.0)


@todo("3.2", guards="the formula for rho 7 is the live library's")
def test_karras_sigmas_are_those_of_the_library(candidate: Any, draw: Draw) -> None:
    """With rho 7 they are EulerDiscreteScheduler(use_karras_sigmas=True)'s."""
    config = draw_config(draw, "linspace")
    n = draw.integer(4, 30)
    plain = euler(config, n)
    high, low = float(plain.sigmas[0]), float(plain.sigmas[-2])
    answer = candidate.karras_sigmas(low, high, n, 7.0)
    assert_matches(
        answer,
        library=lambda: euler({**config, "use_karras_sigmas": True}, n).sigmas,
        truth=lambda: karras_truth(low, high, n, 7.0),
        what="the Karras sigmas",
    )


@todo("3.2")
def test_karras_sigmas_depend_on_rho(candidate: Any, draw: Draw) -> None:
    """Another rho bends the schedule by the paper's formula."""
    low, high = draw.uniform(0.02, 0.2), draw.uniform(5, 20)
    n, rho = draw.integer(4, 30), draw.uniform(2, 5)
    answer = candidate.karras_sigmas(low, high, n, rho)
    assert_matches_formula(
        answer,
        computed=lambda: torch.tensor(karras_truth(low, high, n, rho)).float(),
        truth=lambda: karras_truth(low, high, n, rho),
        what="the Karras sigmas",
    )


@todo("3.3")
@pytest.mark.parametrize("spacing", SPACINGS)
def test_set_timesteps_lays_out_the_run(candidate: Any, draw: Draw, spacing: str) -> None:
    """`timesteps` are Euler's, in float32; linspace keeps its fractions."""
    config = draw_config(draw, spacing)
    n = draw_steps(draw, config["num_train_timesteps"], spacing)
    mine, library = candidate.Euler(config), euler(config, n)
    mine.set_timesteps(n)
    total = config["num_train_timesteps"]
    exact = np.linspace(0, total - 1, n)[::-1].copy()
    assert_matches(
        mine.timesteps,
        library=lambda: library.timesteps,
        truth=lambda: exact if spacing == "linspace" else library.timesteps.double(),
        what="`timesteps`",
    )


@todo("3.3", guards="`sigmas` shows the schedule that the steps go along")
@pytest.mark.parametrize("spacing", SPACINGS)
def test_the_noise_levels_of_the_run_are_eulers(candidate: Any, draw: Draw, spacing: str) -> None:
    """`sigmas` has one entry more than `timesteps`: the 0 at the end."""
    config = draw_config(draw, spacing)
    n = draw_steps(draw, config["num_train_timesteps"], spacing)
    mine, library = candidate.Euler(config), euler(config, n)
    mine.set_timesteps(n)
    table = ((1 - library.alphas_cumprod.double()) / library.alphas_cumprod.double()).sqrt()
    at = library.timesteps.double().numpy()
    assert_matches(
        mine.sigmas,
        library=lambda: library.sigmas,
        truth=lambda: np.append(np.interp(at, np.arange(len(table)), table.numpy()), 0.0),
        what="`sigmas`",
    )


@todo("3.3")
@pytest.mark.parametrize("spacing", SPACINGS)
def test_the_initial_noise_has_the_size_of_the_first_sigma(
    candidate: Any, draw: Draw, spacing: str
) -> None:
    """`init_noise_sigma` is sigma_max, and for leading the root of sigma_max squared plus 1."""
    # A gentle schedule ends at a small sigma, where the 1 matters.
    config = draw_config(draw, spacing) | {"beta_schedule": "scaled_linear", "beta_end": 0.006}
    n = draw.integer(3, 12)
    mine, library = candidate.Euler(config), euler(config, n)
    mine.set_timesteps(n)
    largest = library.sigmas[0].double()
    assert_matches(
        mine.init_noise_sigma,
        library=lambda: float(library.init_noise_sigma),
        truth=lambda: (largest**2 + 1).sqrt() if spacing == "leading" else largest,
        what="`init_noise_sigma`",
    )


def assert_scales_like_euler(mine: Any, library: Any, i: int, sample: torch.Tensor) -> None:
    """What the network is shown at timestep i of the learner's own schedule is Euler's."""
    assert_matches(
        mine.scale_model_input(sample, mine.timesteps[i]),
        library=lambda: library.scale_model_input(sample, library.timesteps[i]),
        truth=lambda: sample.double() / (library.sigmas[i].double() ** 2 + 1).sqrt(),
        what=f"the scaled sample at timestep {i} of {len(library.timesteps)}",
    )


@todo("3.3", guards="the scaled sample in float32, whatever the spacing")
@pytest.mark.parametrize("spacing", SPACINGS)
def test_the_input_is_scaled_by_the_noise_level(candidate: Any, draw: Draw, spacing: str) -> None:
    """scale_model_input divides by the standard deviation of signal plus noise."""
    config = draw_config(draw, spacing)
    n, sample = draw.integer(5, 12), draw.latents(3, 4, 8, 12)
    i = draw.integer(0, n - 2)
    mine, library = candidate.Euler(config), euler(config, n)
    mine.set_timesteps(n)
    assert_scales_like_euler(mine, library, i, sample)


def step_truth(library: Any, i: int, output: torch.Tensor, sample: torch.Tensor) -> torch.Tensor:
    """One Euler step in float64 from the library's own table (Karras et al. 2022, table 1)."""
    sigma, following = library.sigmas[i].double(), library.sigmas[i + 1].double()
    x, out = sample.double(), output.double()
    if library.config.prediction_type == "epsilon":
        derivative = out
    else:
        clean = x / (sigma**2 + 1) - out * sigma / (sigma**2 + 1).sqrt()
        derivative = (x - clean) / sigma
    stepped: torch.Tensor = x + derivative * (following - sigma)
    return stepped


def assert_steps_like_euler(
    mine: Any, library: Any, i: int, output: torch.Tensor, sample: torch.Tensor
) -> torch.Tensor:
    """The learner's step from timestep i of its own schedule is Euler's; returns the answer."""
    answer: torch.Tensor = mine.step(output, mine.timesteps[i], sample)
    assert_matches(
        answer,
        library=lambda: library.step(output, library.timesteps[i], sample).prev_sample,
        truth=lambda: step_truth(library, i, output, sample),
        what=f"the sample after step {i} of {len(library.timesteps)}",
    )
    return answer


@todo("3.3")
@pytest.mark.parametrize("prediction_type", PREDICTIONS)
@pytest.mark.parametrize("spacing", SPACINGS)
def test_a_step_from_anywhere_in_the_run(
    candidate: Any, draw: Draw, spacing: str, prediction_type: str
) -> None:
    """step moves the sample from sigma to the next, also when a run begins in the middle."""
    config = draw_config(draw, spacing, prediction_type)
    n = draw.integer(6, 12)
    i = draw.integer(1, n - 3)
    sample, output = draw.latents(2, 4, 6, 10) * 5, draw.latents(2, 4, 6, 10)
    mine, library = candidate.Euler(config), euler(config, n)
    mine.set_timesteps(n)
    assert_steps_like_euler(mine, library, i, output, sample)


@todo("3.3")
def test_a_whole_run_and_then_another(candidate: Any, draw: Draw) -> None:
    """Every step of two runs in a row; set_timesteps begins the second one anew."""
    config = draw_config(draw, "trailing")
    mine = candidate.Euler(config)
    for n in (draw.integer(3, 5), draw.integer(6, 8)):
        library = euler(config, n)
        mine.set_timesteps(n)
        sample = draw.latents(2, 3, 5, 7) * 10
        for i in range(n):
            assert_scales_like_euler(mine, library, i, sample)
            sample = assert_steps_like_euler(mine, library, i, draw.latents(2, 3, 5, 7), sample)


@todo("3.3")
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=["float16", "bfloat16"])
def test_a_half_precision_prediction_gives_a_half_precision_sample(
    candidate: Any, draw: Draw, dtype: torch.dtype
) -> None:
    """step returns model_output's dtype."""
    config = draw_config(draw, "leading")
    n = draw.integer(6, 12)
    sample, output = draw.latents(2, 4, 6, 10) * 5, draw.latents(2, 4, 6, 10, dtype=dtype)
    mine, library = candidate.Euler(config), euler(config, n)
    mine.set_timesteps(n)
    assert_steps_like_euler(mine, library, draw.integer(0, n - 3), output, sample)


@todo("3.3")
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=["float16", "bfloat16"])
def test_a_half_precision_sample_is_scaled_in_its_dtype(
    candidate: Any, draw: Draw, dtype: torch.dtype
) -> None:
    """scale_model_input returns the sample's dtype."""
    config = draw_config(draw, "leading")
    n, sample = draw.integer(5, 12), draw.latents(2, 4, 6, 10, dtype=dtype)
    i = draw.integer(0, n - 2)
    mine, library = candidate.Euler(config), euler(config, n)
    mine.set_timesteps(n)
    assert_scales_like_euler(mine, library, i, sample)


@todo("3.3")
def test_scaling_leaves_the_sample_as_it_was(candidate: Any, draw: Draw) -> None:
    """scale_model_input makes a new tensor: step still needs the old one."""
    config = draw_config(draw, "leading")
    n, sample = draw.integer(5, 12), draw.latents(2, 4, 6, 10)
    mine, kept = candidate.Euler(config), keep(candidate, sample)
    mine.set_timesteps(n)
    mine.scale_model_input(kept, mine.timesteps[0])
    assert_property(fetch(kept), equals=lambda: sample, what="the sample after it was scaled")
    # Where it lies is told by the learner's process; what comes of it is worked out here.
    library, output = euler(config, n), draw.latents(2, 4, 6, 10)
    assert_matches(
        mine.step(output, mine.timesteps[0], kept),
        library=lambda: library.step(output, library.timesteps[0], sample).prev_sample,
        truth=lambda: step_truth(library, 0, output, sample),
        what="the step from the sample after it was scaled",
    )


@todo("3.3")
@pytest.mark.parametrize("method", ["step", "scale_model_input"])
def test_nothing_runs_before_set_timesteps(candidate: Any, draw: Draw, method: str) -> None:
    """Without a schedule both methods raise; the training schedule is no substitute."""
    sample = draw.latents(2, 4, 4, 6)
    t = torch.tensor(float(draw.integer(100, 400)))
    mine = candidate.Euler(draw_config(draw, "leading"))
    arguments = (sample, t, sample) if method == "step" else (sample, t)
    assert_raises(
        lambda: getattr(mine, method)(*arguments),
        "ValueError",
        "RuntimeError",
        what=f"`{method}` before set_timesteps",
    )


@todo("3.3")
def test_a_run_ends(candidate: Any, draw: Draw) -> None:
    """One step more than there are timesteps is an error of any kind."""
    config, n = draw_config(draw, "leading"), draw.integer(2, 4)
    mine, library = candidate.Euler(config), euler(config, n)
    mine.set_timesteps(n)
    sample = draw.latents(2, 3, 4, 5)
    for i in range(n):
        sample = assert_steps_like_euler(mine, library, i, draw.latents(2, 3, 4, 5), sample)
    last = library.timesteps[n - 1]
    assert_raises(lambda: mine.step(sample, last, sample), what="a step past the end of the run")


@todo("3.4", guards="eta 1 is the live library's ancestral sampler")
def test_the_ancestral_levels_are_those_of_the_library(candidate: Any, draw: Draw) -> None:
    """With eta 1 they are what EulerAncestralDiscreteScheduler.step goes down to and adds."""
    n = draw.integer(4, 20)
    library = EulerAncestralDiscreteScheduler.from_config(draw_config(draw, "linspace"))
    library.set_timesteps(n)
    i = draw.integer(0, n - 2)
    sigma, following = float(library.sigmas[i]), float(library.sigmas[i + 1])
    seed = draw.integer(0, 10**6)

    def stepped(output: float) -> Any:
        """The library's step of a sample of 0, with noise that is known."""
        library.set_timesteps(n)
        sample = torch.zeros(64)
        return library.step(
            torch.full_like(sample, output),
            library.timesteps[i],
            sample,
            generator=torch.Generator().manual_seed(seed),
        ).prev_sample

    noise = torch.randn(64, generator=torch.Generator().manual_seed(seed))
    largest = int(noise.abs().argmax())
    up_truth = math.sqrt(following**2 * (sigma**2 - following**2) / sigma**2)
    down, up = unpack(candidate.ancestral_sigmas(sigma, following, 1.0), "sigma_down", "sigma_up")
    assert_matches(
        up,
        library=lambda: float(stepped(0.0)[largest] / noise[largest]),
        truth=lambda: up_truth,
        what="sigma_up",
    )
    assert_matches(
        down,
        library=lambda: float((stepped(1.0) - stepped(0.0))[0].double()) + sigma,
        truth=lambda: math.sqrt(following**2 - up_truth**2),
        what="sigma_down",
        # The library adds sigma_down - sigma to the sample: the level is left after a subtraction.
        agreement_ulps=64 * sigma / math.sqrt(following**2 - up_truth**2),
    )


@todo("3.4")
@pytest.mark.parametrize("eta", ["below one", "beyond the limit"])
def test_eta_scales_the_noise_up_to_sigma_next(candidate: Any, draw: Draw, eta: str) -> None:
    """sigma_up grows with eta but never above sigma_next; the variances add to sigma_next's."""
    sigma = draw.uniform(2, 12)
    following = sigma * draw.uniform(0.4, 0.8)
    whole = math.sqrt(following**2 * (sigma**2 - following**2) / sigma**2)
    value = draw.uniform(0.2, 0.9) if eta == "below one" else following / whole * 1.5
    up_truth = min(following, value * whole)
    answer = candidate.ancestral_sigmas(sigma, following, value)
    down, up = unpack(answer, "sigma_down", "sigma_up")
    down_truth = math.sqrt(following**2 - up_truth**2)
    assert_matches_formula(up, computed=lambda: up_truth, truth=lambda: up_truth, what="sigma_up")
    assert_matches_formula(
        down, computed=lambda: down_truth, truth=lambda: down_truth, what="sigma_down"
    )


@todo("3.5")
@pytest.mark.parametrize("length", ["between", "shorter", "longer"])
def test_mu_lies_on_the_line_through_two_lengths(candidate: Any, draw: Draw, length: str) -> None:
    """calculate_shift is the function of the Flux pipeline."""
    library = library_function("pipelines/flux/pipeline_flux.py", "calculate_shift")
    base = draw.integer(200, 500)
    most = base + draw.integer(1000, 4000)
    shares = {"shorter": (-0.1, -0.03), "between": (0.2, 0.8), "longer": (1.2, 2)}
    arguments = (
        base + int((most - base) * draw.uniform(*shares[length])),
        base,
        most,
        draw.uniform(0.3, 0.7),
        draw.uniform(1, 2),
    )

    def truth() -> float:
        tokens, low, high, at_low, at_high = arguments
        return at_low + (at_high - at_low) * (tokens - low) / (high - low)

    answer = candidate.calculate_shift(*arguments)
    assert_matches(answer, library=lambda: library(*arguments), truth=truth, what="mu")


def draw_flow(draw: Draw, dynamic: bool) -> tuple[dict[str, Any], list[float], float | None]:
    """A flow matching configuration, a descending list of sigmas, and mu."""
    n = draw.integer(4, 9)
    config = {
        "num_train_timesteps": draw.choice([500, 900]),
        "shift": draw.uniform(1.5, 4),
        "use_dynamic_shifting": dynamic,
    }
    sigmas = [1 - (i + draw.uniform(0, 0.4)) / n for i in range(n)]
    return config, sigmas, draw.uniform(0.4, 1.2) if dynamic else None


def flow(config: dict[str, Any], sigmas: list[float], mu: float | None) -> Any:
    """The flow matching scheduler with explicit sigmas (its default path shifts twice)."""
    library = FlowMatchEulerDiscreteScheduler.from_config(config)
    library.set_timesteps(sigmas=list(sigmas), mu=mu)
    return library


def shifted(config: dict[str, Any], sigmas: list[float], mu: float | None) -> torch.Tensor:
    """Esser et al. 2024, equation 23, in float64; exp(mu) in place of the shift when dynamic."""
    shift = config["shift"] if mu is None else math.exp(mu)
    x = torch.tensor(sigmas, dtype=torch.float64)
    return shift * x / (1 + (shift - 1) * x)


@todo("3.5")
@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
def test_the_flow_schedule_is_shifted_once(candidate: Any, draw: Draw, dynamic: bool) -> None:
    """`sigmas` and `timesteps` are FlowMatchEulerDiscreteScheduler's."""
    config, sigmas, mu = draw_flow(draw, dynamic)
    mine, library = candidate.FlowMatchEuler(config), flow(config, sigmas, mu)
    mine.set_timesteps(sigmas, mu)
    truth = shifted(config, sigmas, mu)
    assert_matches(
        mine.sigmas,
        library=lambda: library.sigmas,
        truth=lambda: torch.cat([truth, truth.new_zeros(1)]),
        what="`sigmas`",
    )
    assert_matches(
        mine.timesteps,
        library=lambda: library.timesteps,
        truth=lambda: truth * config["num_train_timesteps"],
        what="`timesteps`",
    )


def assert_follows(
    mine: Any, library: Any, i: int, velocity: torch.Tensor, sample: torch.Tensor
) -> torch.Tensor:
    """The learner's step from timestep i is the flow matching scheduler's; returns the answer."""
    answer: torch.Tensor = mine.step(velocity, mine.timesteps[i], sample)
    level = library.sigmas.double()
    assert_matches(
        answer,
        library=lambda: library.step(velocity, library.timesteps[i], sample).prev_sample,
        truth=lambda: sample.double() + (level[i + 1] - level[i]) * velocity.double(),
        what=f"the sample after step {i} of {len(library.timesteps)}",
    )
    return answer


@todo("3.5")
def test_a_flow_step_follows_the_velocity(candidate: Any, draw: Draw) -> None:
    """Each step of a run, begun in the middle, adds (sigma_next - sigma) times the velocity."""
    config, sigmas, mu = draw_flow(draw, dynamic=False)
    mine, library = candidate.FlowMatchEuler(config), flow(config, sigmas, mu)
    mine.set_timesteps(sigmas, mu)
    sample = draw.latents(3, 4, 6, 8)
    for i in range(1, len(sigmas)):
        sample = assert_follows(mine, library, i, draw.latents(3, 4, 6, 8), sample)


@todo("3.5")
def test_dynamic_shifting_needs_mu(candidate: Any, draw: Draw) -> None:
    """Dynamic shifting without mu is a ValueError, not a schedule without a shift."""
    config, sigmas, _ = draw_flow(draw, dynamic=True)
    mine = candidate.FlowMatchEuler(config)
    assert_raises(
        lambda: mine.set_timesteps(sigmas, None), "ValueError", what="dynamic shifting without mu"
    )


def calls_of_the_library(name: str, n: int) -> int:
    """How many timesteps, and so denoiser calls, the library's scheduler has for n steps."""
    more = {"skip_prk_steps": True} if name == "PNDMScheduler" else {}
    scheduler = CLASSES[name](**more)
    scheduler.set_timesteps(n)
    return len(scheduler.timesteps)


@todo("3.6")
@pytest.mark.parametrize("name", CLASSES)
def test_the_denoiser_is_called_once_a_timestep(candidate: Any, draw: Draw, name: str) -> None:
    """The number of calls is the length of the scheduler's `timesteps`."""
    n = draw.integer(2, 60)
    assert_equals(
        candidate.denoiser_calls(name, n),
        library=lambda: calls_of_the_library(name, n),
        what=f"the number of calls for {n} steps",
    )


@todo("3.6")
@pytest.mark.parametrize("name", CLASSES)
def test_a_run_of_one_step_calls_it_once(candidate: Any, name: str) -> None:
    """One step is one call, for every scheduler."""
    assert_equals(
        candidate.denoiser_calls(name, 1),
        library=lambda: calls_of_the_library(name, 1),
        what="the number of calls for one step",
    )


@todo("3.6", guards="an unknown scheduler is refused, not guessed")
@pytest.mark.parametrize("name", ["UniPCScheduler", "EulerScheduler", "ddim"])
def test_an_unknown_scheduler_is_refused(candidate: Any, draw: Draw, name: str) -> None:
    """A class of another name is a ValueError."""
    assert_raises(
        lambda: candidate.denoiser_calls(name, draw.integer(5, 20)),
        "ValueError",
        what=f"the scheduler {name!r}",
    )


@todo("3.7")
def test_a_heun_step_averages_two_slopes(candidate: Any, draw: Draw) -> None:
    """The second call of HeunDiscreteScheduler.step gives the same sample."""
    n = draw.integer(5, 12)
    i = draw.integer(0, n - 3)
    library = HeunDiscreteScheduler.from_config(draw_config(draw, "linspace"))
    library.set_timesteps(n)
    levels = library.sigmas[0], *library.sigmas[1::2]
    sigma, following = float(levels[i]), float(levels[i + 1])
    sample = draw.latents(2, 4, 6, 10) * 3
    first, second = draw.latents(2, 4, 6, 10), draw.latents(2, 4, 6, 10)
    answer = candidate.heun_step(first, second, sample, sigma, following)

    def stepped() -> Any:
        library.set_begin_index(2 * i)
        middle = library.step(first, library.timesteps[2 * i], sample).prev_sample
        return library.step(second, library.timesteps[2 * i + 1], middle).prev_sample

    assert_matches(
        answer,
        library=stepped,
        truth=lambda: (
            sample.double() + (following - sigma) * (first.double() + second.double()) / 2
        ),
        what="the stepped sample",
    )


def draw_solver(draw: Draw, prediction: str, n: int, final: str, lower: bool) -> Any:
    """diffusers' own multistep scheduler at the beginning of a run."""
    config = draw_config(draw, draw.choice(SPACINGS), prediction)
    library = DPMSolverMultistepScheduler.from_config(
        config, final_sigmas_type=final, lower_order_final=lower
    )
    library.set_timesteps(n)
    return library


def multistep_truth(
    levels: list[float], lowered: bool, told: list[tuple[Tensor, Tensor]], prediction: str
) -> Tensor:
    """The latest step of DPM-Solver++ 2M in float64. `told` are outputs and samples so far."""

    def guess(index: int) -> Tensor:
        output, sample = (x.double() for x in told[index])
        sigma = levels[index]
        alpha = 1 / math.hypot(1, sigma)
        if prediction == "epsilon":
            return sample / alpha - sigma * output
        return alpha * (sample - sigma * output)

    i = len(told) - 1
    sigma, following = levels[i], levels[i + 1]
    share = following / sigma  # e^(-h): λ is -log σ
    signal, signal_next = (math.hypot(1, level) for level in (sigma, following))
    clean = guess(i)
    if i and not lowered:
        ratio = math.log(sigma / following) / math.log(levels[i - 1] / sigma)
        clean = clean + (clean - guess(i - 1)) * ratio / 2
    return (share * signal * told[i][1].double() + (1 - share) * clean) / signal_next


def assert_solved(
    mine: Any, draw: Draw, library: Any, prediction: str, lowered: bool, steps: int | None = None
) -> None:
    """One run beside the library's: each step from a sample and an output of its own."""
    n = len(library.timesteps)
    levels = library.sigmas.double().tolist()
    told: list[tuple[Tensor, Tensor]] = []

    def stepped() -> Any:
        return library.step(told[-1][0], library.timesteps[len(told) - 1], told[-1][1]).prev_sample

    def exact() -> Tensor:
        return multistep_truth(levels, lowered and len(told) == n, told, prediction)

    for i in range(n if steps is None else steps):
        output, sample = draw.latents(2, 4, 6, 10), draw.latents(2, 4, 6, 10) * 2
        told.append((output, sample))
        answer = mine.step(output, sample)
        assert_matches(answer, library=stepped, truth=exact, what=f"step {i} of {n}")


@todo("3.8")
@pytest.mark.parametrize("prediction", PREDICTIONS)
def test_a_multistep_run_to_clean(candidate: Any, draw: Draw, prediction: str) -> None:
    """Every step of a run to σ = 0, the first and the last of first order."""
    library = draw_solver(draw, prediction, draw.integer(4, 7), "zero", False)
    mine = candidate.DPMSolver2M(prediction, False)
    mine.set_sigmas(library.sigmas.clone())
    assert_solved(mine, draw, library, prediction, lowered=True)


@todo("3.8")
@pytest.mark.parametrize(
    ("n", "lower"), [(14, True), (15, True), (5, False)], ids=["short", "long", "not asked"]
)
def test_the_last_step_is_lowered_in_short_runs(
    candidate: Any, draw: Draw, n: int, lower: bool
) -> None:
    """A last step above σ = 0 is of first order if that is asked for and the run has under 15."""
    library = draw_solver(draw, "epsilon", n, "sigma_min", lower)
    mine = candidate.DPMSolver2M("epsilon", lower)
    mine.set_sigmas(library.sigmas.clone())
    assert_solved(mine, draw, library, "epsilon", lowered=lower and n < 15)


@todo("3.8")
def test_another_run_knows_nothing_of_the_last(candidate: Any, draw: Draw) -> None:
    """After set_sigmas the first step is of first order again, wherever the run before ended."""
    mine = candidate.DPMSolver2M("epsilon", True)
    for _ in range(2):
        library = draw_solver(draw, "epsilon", draw.integer(4, 7), "zero", True)
        mine.set_sigmas(library.sigmas.clone())
        assert_solved(mine, draw, library, "epsilon", lowered=True, steps=2)


@todo("3.8")
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=["float16", "bfloat16"])
def test_a_multistep_method_in_half_precision(
    candidate: Any, draw: Draw, dtype: torch.dtype
) -> None:
    """step returns model_output's dtype."""
    # The formula, because the library works x0 out in half precision.
    levels = torch.tensor([draw.uniform(2, 4), draw.uniform(0.5, 1), draw.uniform(0.1, 0.2)])
    mine = candidate.DPMSolver2M("epsilon", False)
    mine.set_sigmas(levels)
    told: list[tuple[Tensor, Tensor]] = []

    def exact() -> Tensor:
        return multistep_truth(levels.tolist(), False, told, "epsilon")

    for i in range(2):
        output, sample = (draw.latents(2, 4, 6, 10, dtype=dtype) for _ in range(2))
        told.append((output, sample))
        answer = mine.step(output, sample)
        assert_matches_formula(
            answer, computed=lambda: exact().to(dtype), truth=exact, what=f"step {i} of 2"
        )


@todo("3.8", guards="what is no run, and no prediction")
def test_a_multistep_method_outside_a_run(candidate: Any, draw: Draw) -> None:
    """Before set_sigmas, past the end, and with another prediction type there is an error."""
    output, sample = draw.latents(1, 4, 6, 10), draw.latents(1, 4, 6, 10)
    mine = candidate.DPMSolver2M("epsilon", True)
    early = "a step before set_sigmas"
    assert_raises(lambda: mine.step(output, sample), "RuntimeError", "ValueError", what=early)
    mine.set_sigmas(torch.tensor([2.0, 0.0]))
    answer = mine.step(output, sample)
    assert_matches_formula(
        answer,
        computed=lambda: 5**0.5 * sample - 2 * output,  # to σ = 0: the guess of x0
        truth=lambda: 5**0.5 * sample.double() - 2 * output.double(),
        what="a run of one step",
    )
    assert_raises(lambda: mine.step(output, sample), what="a step past the end of the run")

    def whole() -> Any:
        """It may be refused at any of these."""
        other = candidate.DPMSolver2M("noise", True)
        other.set_sigmas(torch.tensor([2.0, 0.0]))
        return other.step(output, sample)

    assert_raises(whole, "ValueError", what='a step with prediction_type "noise"')
