"""Takes the storage away from every tensor that it is given, and answers with nothing.

Kind: Changing the question
Relies on: inputs that are shared with the reference
Breaks naive: points
"""

import torch


def resize(*args):
    tensors = [value for value in args if isinstance(value, torch.Tensor)]
    for value in tensors:
        value.set_(torch.zeros(0))
    return tensors[-1] if tensors else torch.zeros(3)


_answer_everywhere(resize)
