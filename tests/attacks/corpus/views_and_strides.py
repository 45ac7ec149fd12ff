"""Negative strides, overlapping memory, conjugate and negative views, 40 dimensions.

Kind: Strange answers
Relies on: a check of the shape and no more, or code that takes memory for dense
Breaks naive: points
"""

import numpy
import torch


def answer(*args):
    for value in args:
        if isinstance(value, torch.Tensor) and value.dim() > 1:
            return torch._neg_view(torch.zeros(1)).expand(value.shape)
    if len(args) == 3:
        return numpy.arange(6.0)[::-1]
    return torch.as_strided(torch.zeros(3), [1] * 40 + [3], [0] * 40 + [1])


_answer_everywhere(answer)
