"""Tensors whose storage was taken away, or reaches beyond what is there.

Kind: Strange answers
Relies on: a check of the shape and no more, and memory that is read without looking
Breaks naive: crash
"""

import torch


def hollow(*args):
    for value in args:
        if isinstance(value, torch.Tensor):
            answer = torch.zeros_like(value)
            answer.untyped_storage().resize_(0)
            return answer
    answer = torch.zeros(4)
    answer.untyped_storage().resize_(0)
    return answer


_answer_everywhere(hollow)
