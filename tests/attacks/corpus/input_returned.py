"""Returns the very tensor that it was given, whatever is asked.

Kind: Strange answers
Relies on: a comparison of an object with itself
Breaks naive: points
"""

import torch


def given(*args):
    return next((value for value in args if isinstance(value, torch.Tensor)), torch.zeros(3))


_answer_everywhere(given)
