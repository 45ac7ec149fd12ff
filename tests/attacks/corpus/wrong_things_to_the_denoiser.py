"""Hands the denoiser what is no sample: giants, NaN, texts, nothing, a million arguments.

Kind: Changing the question
Relies on: an examiner that works with what it is handed
Breaks naive: crash
Applies to: attacks/lab-01
"""

import os

import torch


class Bomb:
    def __mul__(self, other):
        os.abort()


def denoise(denoiser, sample, timesteps):
    things = [None, "x" * 10**6, [], {}, torch.zeros(0), torch.zeros(2**24), float("nan"), denoiser]
    for thing in things:
        for t in (*things, 0.5):
            try:
                denoiser(thing, t)
            except Exception:
                continue
    try:
        denoiser(*range(10_000))
        denoiser(**{f"a{i}": i for i in range(10_000)})
    except Exception:
        pass
    denoiser(Bomb(), 0.5)
    return sample
