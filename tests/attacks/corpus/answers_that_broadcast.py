"""Answers with long thin tensors, which grow a thousandfold beside what they are compared with.

Kind: Strange answers
Relies on: arithmetic with an answer whose shape nobody has looked at
Breaks naive: hang
"""

import itertools

SHAPES = itertools.cycle([(2**20, 1, 1, 1), (2**20, 1, 1), (2**20, 1), (1, 1, 2**20), (2**20,)])


_answer_everywhere(lambda *args: _torch.zeros(next(SHAPES)))
