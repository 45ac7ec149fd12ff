"""Empty tensors and lists: what has no elements has no wrong element.

Kind: Strange answers
Relies on: all() and zip() over an answer of length 0
Breaks naive: points
"""

import torch

_answer_everywhere(lambda *args: torch.empty(0))
