"""Overwrites the weights of the module that it adapts, and answers with what they then give.

Kind: Changing the question
Relies on: weights that are shared with the reference
Breaks naive: points
Applies to: attacks/lab-01
"""

import torch


class Adapter(torch.nn.Module):
    def __init__(self, base, rank):
        super().__init__()
        self.base = base
        for parameter in base.parameters():
            parameter.requires_grad_(False).zero_()
        self.down = torch.nn.Parameter(torch.zeros(rank, 3))
        self.up = torch.nn.Parameter(torch.zeros(3, rank))

    def forward(self, x):
        return torch.zeros_like(x)
