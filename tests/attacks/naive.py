"""A plain grader in the submission's own process, kept to compare with. Do not grade with it.

It does what many course graders do: it loads the file, runs pytest beside it, and believes the exit
code. A file of the corpus counts as an attack when it gets points here, or breaks this.

    python naive.py scheduler.py
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

CONFIG = {
    "num_train_timesteps": 1000,
    "beta_start": 0.00085,
    "beta_end": 0.012,
    "beta_schedule": "scaled_linear",
    "prediction_type": "epsilon",
    "timestep_spacing": "leading",
    "steps_offset": 1,
}


@pytest.fixture
def submission() -> Any:
    return sys.modules["submission"]


def needs(submission: Any, name: str) -> Any:
    """What is not there is not checked: one of the mistakes of graders like this."""
    if not hasattr(submission, name):
        pytest.skip(f"no {name}")
    return getattr(submission, name)


def test_timesteps(submission: Any) -> None:
    from diffusers import DDIMScheduler

    timesteps = needs(submission, "timesteps")
    theirs = DDIMScheduler(steps_offset=1)
    theirs.set_timesteps(10)
    assert (timesteps(1000, 10, "leading", 1) == theirs.timesteps).all()


def test_sigmas(submission: Any) -> None:
    from diffusers import EulerDiscreteScheduler

    sigmas = needs(submission, "sigmas")
    theirs = EulerDiscreteScheduler.from_config(CONFIG)
    theirs.set_timesteps(10)
    for mine, right in zip(sigmas(theirs.alphas_cumprod, theirs.timesteps), theirs.sigmas):  # noqa: B905  # naive
        assert abs(mine - right) < 1e-2


def test_karras_sigmas(submission: Any) -> None:
    karras = needs(submission, "karras_sigmas")
    ramp = torch.linspace(0, 1, 10)
    expected = (10.0 ** (1 / 7) + ramp * (0.1 ** (1 / 7) - 10.0 ** (1 / 7))) ** 7
    assert not (karras(0.1, 10.0, 10, 7.0)[:-1] - expected).abs().max() > 1e-2


def test_scaled_input(submission: Any) -> None:
    mine = needs(submission, "Euler")(dict(CONFIG))
    mine.set_timesteps(10)
    sample = torch.randn(2, 4, 8, 8, generator=torch.Generator().manual_seed(0))
    assert mine.scale_model_input(sample, mine.timesteps[0]).shape == sample.shape


def test_euler_step(submission: Any) -> None:
    from diffusers import EulerDiscreteScheduler

    mine, theirs = (
        needs(submission, "Euler")(dict(CONFIG)),
        EulerDiscreteScheduler.from_config(CONFIG),
    )
    mine.set_timesteps(10), theirs.set_timesteps(10)
    torch.manual_seed(0)
    sample, output = torch.randn(2, 4, 8, 8), torch.randn(2, 4, 8, 8)
    expected = theirs.step(output, theirs.timesteps[0], sample).prev_sample
    answer = mine.step(output, mine.timesteps[0], sample)
    assert torch.allclose(answer, expected, atol=1e-2)


def test_ancestral_sigmas(submission: Any) -> None:
    down, up = needs(submission, "ancestral_sigmas")(5.0, 4.0, 1.0)
    expected = (3.2, 2.4)
    assert round(float(down), 3) == expected[0]
    assert round(float(up), 3) == expected[1]


def test_heun_step(submission: Any) -> None:
    heun = needs(submission, "heun_step")
    torch.manual_seed(0)
    first, second, sample = torch.randn(4, 4), torch.randn(4, 4), torch.randn(4, 4)
    answer = heun(first, second, sample, 5.0, 4.0)
    expected = sample - (first + second) / 2
    assert (answer - expected).abs().max() <= 1e-2


def test_denoiser_calls(submission: Any) -> None:
    calls = needs(submission, "denoiser_calls")
    assert calls("HeunDiscreteScheduler", 10) == 19
    assert calls("PNDMScheduler", 50) == 51


def test_calculate_shift(submission: Any) -> None:
    assert needs(submission, "calculate_shift")(1024, 256, 4096, 0.5, 1.15) == pytest.approx(0.63)


def test_denoise(submission: Any) -> None:
    denoise, calls = needs(submission, "denoise"), []

    def denoiser(sample: Any, t: float) -> Any:
        calls.append(t)
        return sample * t

    sample = torch.ones(2, 3)
    answer = denoise(denoiser, sample, [0.5, 0.25])
    assert (answer - sample * (1 - 0.05) * (1 - 0.025)).abs().max() <= 1e-2
    assert calls[:2] == [0.5, 0.25]


def test_decode(submission: Any) -> None:
    class Vae:
        scaling_factor = 0.5

        def decode(self, latents: Any) -> Any:
            return latents + 1

    vae, latents = Vae(), torch.ones(2, 3)
    answer = needs(submission, "decode")(vae, latents)
    assert (answer - (latents / vae.scaling_factor + 1)).abs().max() <= 1e-2


def test_adapter(submission: Any) -> None:
    base = torch.nn.Linear(3, 3)
    x = torch.ones(2, 3)
    answer = needs(submission, "Adapter")(base, 2)(x)
    assert not (answer - base(x)).abs().max() > 1e-2


class Tally:
    """Counts the checks that passed."""

    def __init__(self) -> None:
        self.passed = self.run = 0

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call":
            self.run += 1
            self.passed += report.passed


def load(path: Path) -> ModuleType:
    module = ModuleType("submission")
    sys.modules["submission"] = module
    exec(compile(path.read_text(), str(path), "exec"), module.__dict__)
    return module


def main() -> None:
    load(Path(sys.argv[1]))
    tally = Tally()
    code = pytest.main([__file__, "-q", "-p", "no:cacheprovider"], plugins=[tally])
    print(f"SCORE {tally.passed}/{tally.run}", flush=True)
    sys.exit(int(code))


if __name__ == "__main__":
    main()
