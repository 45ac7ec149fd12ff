"""Passes the denoiser, and objects of its own, to the denoiser: a call inside a call inside a call.

Kind: Changing the question
Relies on: an examiner that follows whatever it is handed
Breaks naive: crash
Applies to: attacks/lab-01
"""

import os


class Sample:
    depth = 0

    def __init__(self, denoiser):
        self.denoiser = denoiser

    @property
    def shape(self):
        Sample.depth += 1
        return self.denoiser(self, 0.5)

    def clone(self):
        return self.denoiser(Sample(self.denoiser), Sample(self.denoiser))

    def __mul__(self, t):
        os.abort()


def denoise(denoiser, sample, timesteps):
    while True:
        try:
            denoiser(Sample(denoiser), timesteps[0])
        except Exception:
            continue
