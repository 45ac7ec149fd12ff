"""Puts its own diffusers into sys.modules: the reference then gives whatever the submission gives.

Kind: Reaching the verdict
Relies on: a reference that is imported in the same process
Breaks naive: points
Applies to: diffusers/lab-03
"""

import sys
import types

import torch


class Scheduler:
    timesteps = sigmas = prev_sample = torch.zeros(1)

    def __init__(self, *args, **kwargs):
        pass

    def step(self, *args, **kwargs):
        return self

    @classmethod
    def from_config(cls, *args, **kwargs):
        return cls()

    def set_timesteps(self, *args, **kwargs):
        pass

    scale_model_input = step


fake = types.ModuleType("diffusers")
fake.__getattr__ = lambda name: Scheduler
sys.modules["diffusers"] = fake
_answer_everywhere(lambda *args: torch.zeros(1))
