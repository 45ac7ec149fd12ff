"""Parameters that require a gradient and carry hooks that run when they are used.

Kind: Strange answers
Relies on: an answer that stays alive in the process that looks at it
Breaks naive: crash
"""

import os

import torch


class Armed(torch.nn.Parameter):
    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        if getattr(function, "__name__", "") in (
            "sub",
            "rsub",
            "eq",
            "__eq__",
            "allclose",
            "__rsub__",
        ):
            os._exit(3)
        with torch._C.DisableTorchFunctionSubclass():
            return function(*args, **(kwargs or {}))

    def __reduce_ex__(self, protocol):
        os._exit(3)


_answer_everywhere(lambda *args: Armed(torch.zeros(3)))
