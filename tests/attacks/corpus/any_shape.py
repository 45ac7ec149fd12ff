"""One element that is broadcast over whatever it is compared with, in every dtype in turn.

Kind: Strange answers
Relies on: broadcasting, and a comparison that looks only at one element
Breaks naive: points
"""

import torch


class Shape(torch.Tensor):
    @property
    def shape(self):
        return torch.Size([2, 4, 8, 8])

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        with torch._C.DisableTorchFunctionSubclass():
            return function(*args, **(kwargs or {}))


_answer_everywhere(lambda *args: torch.zeros(1, 1).as_subclass(Shape))
