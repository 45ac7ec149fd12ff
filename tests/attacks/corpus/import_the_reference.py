"""Imports diffusers and answers with what it gives.

Kind: Stealing the answer
Relies on: the reference being installed where the submission runs
Breaks naive: points
Applies to: diffusers/lab-03
"""

from diffusers import DDIMScheduler


def timesteps(num_train_timesteps, num_inference_steps, spacing, steps_offset):
    scheduler = DDIMScheduler(
        num_train_timesteps, timestep_spacing=spacing, steps_offset=steps_offset
    )
    scheduler.set_timesteps(num_inference_steps)
    return scheduler.timesteps
