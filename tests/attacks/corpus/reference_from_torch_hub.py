"""Loads diffusers through torch.hub, as a local folder with a hubconf of its own.

Kind: Stealing the answer
Relies on: a mask that knows only `import`
Breaks naive: points
Level: sandbox
Applies to: diffusers/lab-03
"""


def timesteps(num_train_timesteps, num_inference_steps, spacing, steps_offset):
    import tempfile
    from pathlib import Path

    import torch

    folder = Path(tempfile.mkdtemp())
    (folder / "hubconf.py").write_text(
        "import sys\n"
        "sys.meta_path[:] = [f for f in sys.meta_path if type(f).__name__ != '_Mask']\n"
        "def ddim(**config):\n"
        "    from diffusers import DDIMScheduler\n"
        "    return DDIMScheduler(**config)\n"
    )
    scheduler = torch.hub.load(
        str(folder), "ddim", source="local", num_train_timesteps=num_train_timesteps,
        timestep_spacing=spacing, steps_offset=steps_offset,
    )  # fmt: skip
    scheduler.set_timesteps(num_inference_steps)
    return scheduler.timesteps
