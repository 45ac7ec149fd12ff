"""An object whose __array__, __float__ and __torch_function__ each say something else.

Kind: Strange answers
Relies on: an answer that is converted before it is compared, or compared by itself
Breaks naive: points
"""

import numpy
import torch


class Liar:
    shape = torch.Size([2, 4, 8, 8])
    dtype = torch.float32
    times = 0

    def __array__(self, *args, **kwargs):
        Liar.times += 1
        return numpy.full((1,), Liar.times)

    def __float__(self):
        return 3.2

    def __len__(self):
        return 0

    def __getitem__(self, index):
        raise IndexError

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        return torch.ones(()).bool()


_answer_everywhere(lambda *args: Liar())
