"""Takes the storage away from every tensor that it is given, and answers with nothing.

Kind: Changing the question
Relies on: inputs that are shared with the reference
Breaks naive: points
"""

import torch


def resize(*args):
    for value in args:
        if isinstance(value, torch.Tensor):
            value.set_(torch.zeros(0))
    return torch.zeros(2, 4, 8, 8) if any(isinstance(a, torch.Tensor) for a in args) else 0.0


_answer_everywhere(resize)
