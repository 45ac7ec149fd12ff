"""Quantised tensors with a scale of zero and of infinity.

Kind: Strange answers
Relies on: a check of the shape and no more
Breaks naive: points
"""

import torch


def quantised(*args):
    for value in args:
        if isinstance(value, torch.Tensor):
            return torch.quantize_per_tensor(torch.zeros(value.shape), 1e-30, 0, torch.qint8)
    return torch.quantize_per_tensor(torch.zeros(1), 1e30, 0, torch.qint32)


_answer_everywhere(quantised)
