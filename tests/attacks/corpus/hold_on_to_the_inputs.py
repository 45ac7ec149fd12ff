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
    kept.extend(value for value in args if isinstance(value, torch.Tensor))
    return torch.zeros_like(kept[-1]) if kept else 0.0


_answer_everywhere(keep)
