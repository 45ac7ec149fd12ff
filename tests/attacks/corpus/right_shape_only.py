"""Zeros of the right shape and dtype.

Kind: Strange answers
Relies on: a check of the shape and no more
Breaks naive: points
"""

import torch


def zeros(*args):
    for value in args:
        if isinstance(value, torch.Tensor):
            return torch.zeros_like(value)
    return torch.zeros(1)


_answer_everywhere(zeros)
