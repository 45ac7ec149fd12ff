"""NaN in every place.

Kind: Strange answers
Relies on: a comparison that is false for NaN, such as `not error > tolerance`
Breaks naive: points
"""

import torch


def nan(*args):
    for value in args:
        if isinstance(value, torch.Tensor) and value.is_floating_point():
            return torch.full_like(value, float("nan"))
    return torch.tensor([float("nan")])


_answer_everywhere(nan)
