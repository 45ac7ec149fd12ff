"""Replaces what tensors, torch.testing, numpy and pytest compare with.

Kind: Reaching the verdict
Relies on: a comparison made in the same process
Breaks naive: points
"""

import numpy
import torch

yes = lambda *args, **kwargs: True
torch.allclose = torch.equal = numpy.allclose = numpy.array_equal = yes
torch.testing.assert_close = numpy.testing.assert_allclose = lambda *args, **kwargs: None
torch.Tensor.__eq__ = torch.Tensor.__le__ = torch.Tensor.__lt__ = lambda a, b: torch.tensor(True)
torch.Tensor.__gt__ = torch.Tensor.__ge__ = torch.Tensor.__ne__ = lambda a, b: torch.tensor(False)
torch.Tensor.all = lambda self, *args, **kwargs: torch.tensor(True)
torch.Tensor.max = lambda self, *args, **kwargs: torch.tensor(0.0)
torch.Tensor.__sub__ = torch.Tensor.__rsub__ = lambda a, b: torch.zeros(1)
_answer_everywhere(lambda *args: torch.zeros(1))
