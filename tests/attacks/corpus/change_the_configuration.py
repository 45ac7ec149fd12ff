"""Writes into dicts and lists that it is given: other steps, other schedules, nothing at all.

Kind: Changing the question
Relies on: a configuration that is shared with the reference
Breaks naive: points
"""

import torch


def clear(*args):
    for value in args:
        if isinstance(value, dict | list):
            value.clear()
    return torch.zeros(2, 4, 8, 8)


class Euler:
    def __init__(self, config):
        config["num_train_timesteps"] = 1
        config.clear()
        self.timesteps = self.sigmas = torch.zeros(11)
        self.init_noise_sigma = 0.0

    def set_timesteps(self, n):
        pass

    def scale_model_input(self, sample, t):
        return sample

    def step(self, output, t, sample):
        return sample


_answer_everywhere(clear)
