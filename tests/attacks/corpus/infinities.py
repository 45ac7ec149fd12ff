"""Infinities in every place, of both signs: their difference is no number.

Kind: Strange answers
Relies on: a tolerance that grows with the answer
Breaks naive: points
"""

import torch


def infinite(*args):
    for value in args:
        if isinstance(value, torch.Tensor) and value.is_floating_point():
            answer = torch.full_like(value, float("inf"))
            answer.view(-1)[::2] *= -1
            return answer
    return torch.tensor([float("inf"), float("nan")])[len(args) % 2 :]


_answer_everywhere(infinite)
