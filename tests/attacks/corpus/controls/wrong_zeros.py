"""Zeros of the shape of the first tensor, or the whole number 0.

Kind: Controls
Relies on: nothing
"""


def zeros(*args):
    for value in args:
        if isinstance(value, _torch.Tensor):
            return _torch.zeros_like(value)
    return _torch.zeros(1) if len(args) > 2 else 0


_answer_everywhere(zeros)
