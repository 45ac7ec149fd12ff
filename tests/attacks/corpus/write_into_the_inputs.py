"""Sets every tensor that it is given to zero, and answers zero.

Kind: Changing the question
Relies on: a reference that is computed afterwards from the same tensors
Breaks naive: points
"""

import torch


def zero(*args):
    for value in args:
        if isinstance(value, torch.Tensor):
            value.zero_()
    tensors = [value for value in args if isinstance(value, torch.Tensor)]
    return tensors[-1] if tensors else 0.0


_answer_everywhere(zero)
