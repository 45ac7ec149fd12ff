"""Keeps every input and changes it later, from a thread, while the check compares.

Kind: Changing the question
Relies on: inputs, or answers, that are shared with the check
Breaks naive: points
"""

import threading

import torch

kept = []


def spoil():
    while True:
        for value in list(kept):
            value.zero_()


threading.Thread(target=spoil, daemon=True).start()


def keep(*args):
    tensors = [value for value in args if isinstance(value, torch.Tensor)]
    kept.extend(tensors)
    return torch.zeros_like(tensors[0]) if tensors else torch.zeros(3)


_answer_everywhere(keep)
