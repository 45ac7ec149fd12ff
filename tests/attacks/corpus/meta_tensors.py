"""Tensors on the meta device: a shape and no numbers.

Kind: Strange answers
Relies on: a check of the shape and no more
Breaks naive: points
"""

import torch


def meta(*args):
    for value in args:
        if isinstance(value, torch.Tensor):
            return torch.empty_like(value, device="meta")
    return torch.empty(3, device="meta")


_answer_everywhere(meta)
