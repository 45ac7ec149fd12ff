"""A view with half a billion elements of a storage that has one.

Kind: Strange answers
Relies on: an answer that is copied, or walked through, before its size is looked at
Breaks naive: hang
"""

import torch

_answer_everywhere(lambda *args: torch.zeros(1).expand(2**29))
