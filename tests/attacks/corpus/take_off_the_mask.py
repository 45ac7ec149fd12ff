"""Removes the import hook that masks diffusers, and imports it.

Kind: Stealing the answer
Relies on: a mask inside the process that it is to bind
Breaks naive: points
Level: sandbox
Applies to: diffusers/lab-03
"""

import sys

sys.meta_path[:] = [finder for finder in sys.meta_path if type(finder).__name__ != "_Mask"]


def timesteps(num_train_timesteps, num_inference_steps, spacing, steps_offset):
    from diffusers import DDIMScheduler

    scheduler = DDIMScheduler(
        num_train_timesteps, timestep_spacing=spacing, steps_offset=steps_offset
    )
    scheduler.set_timesteps(num_inference_steps)
    return scheduler.timesteps
