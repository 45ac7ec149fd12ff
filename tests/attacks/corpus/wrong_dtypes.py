"""Complex, float8, quantised and other numbers that the lab never asked for.

Kind: Strange answers
Relies on: a check of the shape and no more
Breaks naive: points
"""

import torch

KINDS = [
    torch.complex64,
    torch.float64,
    torch.float8_e4m3fn,
    torch.uint16,
    torch.bool,
    torch.complex32,
]
asked = []


def strange(*args):
    asked.append(0)
    for value in args:
        if isinstance(value, torch.Tensor):
            return torch.zeros_like(value).to(KINDS[len(asked) % len(KINDS)])
    return torch.zeros(1, dtype=KINDS[len(asked) % len(KINDS)])


_answer_everywhere(strange)
