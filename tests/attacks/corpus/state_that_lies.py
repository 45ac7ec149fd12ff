"""A module whose state, parameters and gradients are what it says at the moment.

Kind: Changing the question
Relies on: asking the module about itself
Breaks naive: points
Applies to: attacks/lab-01
"""

import torch


class Adapter:
    def __init__(self, base, rank):
        self.base = base

    def state_dict(self):
        return {"up": float("nan"), "\x1b[2J" * 1000: [torch.zeros(1, device="meta")], "x": self}

    def named_parameters(self):
        while True:
            yield "base.weight", torch.zeros(1)

    def load_state_dict(self, state):
        raise SystemExit(0)

    def __call__(self, x):
        return x * float("nan")
