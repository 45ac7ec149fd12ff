"""Lab 03: the checkpoints of the page, answered by the live library."""

from __future__ import annotations

from typing import Any

import torch
from diffusers import (
    DDIMScheduler,
    DPMSolverMultistepScheduler,
    EulerAncestralDiscreteScheduler,
    EulerDiscreteScheduler,
    FlowMatchEulerDiscreteScheduler,
    HeunDiscreteScheduler,
)

from infralens.quiz import question


@question('T = 1000, ten steps, "leading", `steps_offset` 1: which timestep comes first?')
def first_timestep() -> int:
    """901: the multiples of 1000 // 10 = 100 run from 0 to 900, and the offset is added to each."""
    library = DDIMScheduler(1000, timestep_spacing="leading", steps_offset=1)
    library.set_timesteps(10)
    return int(library.timesteps[0])


@question(
    'Stable Diffusion\'s table ("scaled_linear", .00085 to .012, T = 1000), "linspace", 30 steps: '
    "by what number is standard normal noise multiplied before the first step? (One decimal.)"
)
def initial_noise() -> float:
    """14.6, which is init_noise_sigma: the largest σ, √((1 − ᾱ) / ᾱ) at t = 999. Under "leading" it
    would be √(σ² + 1) for the σ of the first timestep."""
    library = EulerDiscreteScheduler(
        1000, 0.00085, 0.012, "scaled_linear", timestep_spacing="linspace"
    )
    library.set_timesteps(30)
    return float(library.init_noise_sigma)


@question("`HeunDiscreteScheduler` with 25 steps: how many times is the network called?")
def heun_calls() -> int:
    """49 = 2·25 − 1: two calls a step, but one in the last, which ends at σ = 0. The loop runs over
    `timesteps`, and that is how long it is."""
    library = HeunDiscreteScheduler()
    library.set_timesteps(25)
    return len(library.timesteps)


def ancestral_step(output: float) -> torch.Tensor:
    """The library's step of a sample of 0 from σ = 5 to 4, with the same noise each time."""
    library = EulerAncestralDiscreteScheduler()
    library.set_timesteps(2)
    library.sigmas = torch.tensor([5.0, 4.0, 0.0])
    sample, t = torch.zeros(1, 1, 4, 4), library.timesteps[0]
    library.scale_model_input(sample, t)
    generator = torch.Generator().manual_seed(0)
    step = library.step(torch.full_like(sample, output), t, sample, generator=generator)
    stepped: torch.Tensor = step.prev_sample
    return stepped


@question("An ancestral step at η = 1 from σ = 5 to σ_next = 4: what is σ_down?")
def down() -> float:
    """3.2: σ_up = √(16·9 / 25) = 2.4, and σ_down = √(16 − 5.76). Together they make 4 again."""
    return 5.0 + float((ancestral_step(1.0) - ancestral_step(0.0)).mean())  # x moved by σ_down − 5


@question(
    "`FlowMatchEulerDiscreteScheduler` with shift 3 is given the sigmas [1.0, 0.5]: what is its "
    "second timestep, if T = 1000?"
)
def second_flow_timestep() -> float:
    """750: σ = .5 has the odds 1, shift 3 makes them 3, so σ' = 3 / 4, and the timestep is σ'·T."""
    library = FlowMatchEulerDiscreteScheduler(1000, shift=3.0)
    library.set_timesteps(sigmas=[1.0, 0.5])
    return float(library.timesteps[1])


@question(
    "DDIM at η = 0 and Euler walk the same timesteps with the same ε. At a timestep where ᾱ = .25 "
    "Euler holds the value 3.0. What does DDIM hold?"
)
def held_by_ddim() -> float:
    """1.5 = 3·√.25. DDIM keeps x at unit variance, Euler keeps x / √ᾱ; the rest is the same
    method."""
    table = {"num_train_timesteps": 1, "trained_betas": [0.75]}  # ᾱ = .25
    ddim, euler = DDIMScheduler(**table), EulerDiscreteScheduler(**table)
    nothing, noise = torch.zeros(1, 1, 1, 1), torch.ones(1, 1, 1, 1)
    t = torch.tensor([0])
    in_ddim = ddim.add_noise(nothing, noise, t)
    in_euler = euler.add_noise(nothing, noise, t.float())
    return 3.0 * float(in_ddim / in_euler)


@question(
    "DPM-Solver++ 2M, ten steps that end at σ = 0: in how many of them does the guess before play "
    "a part?"
)
def steps_of_second_order() -> int:
    """8. The first step has no guess before it. The last is infinitely long in λ, so a line through
    two guesses is no good over it: both are of first order."""
    used = []

    class Counting(DPMSolverMultistepScheduler):  # type: ignore[misc]  # it has no types
        def multistep_dpm_solver_second_order_update(self, *args: Any, **kwargs: Any) -> Any:
            used.append(self.step_index)
            return super().multistep_dpm_solver_second_order_update(*args, **kwargs)

    library = Counting()
    library.set_timesteps(10)
    x = torch.ones(1, 1, 2, 2)
    for t in library.timesteps:
        x = library.step(x, t, x).prev_sample
    return len(used)
