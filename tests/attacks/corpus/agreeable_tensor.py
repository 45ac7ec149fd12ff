"""A Tensor subclass whose __torch_function__ answers every question with yes.

Kind: Strange answers
Relies on: torch asking the answer's own class
Breaks naive: points
"""

import torch


class Agreeable(torch.Tensor):
    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        name = getattr(function, "__name__", "")
        if name in (
            "allclose",
            "equal",
            "isclose",
            "__eq__",
            "eq",
            "all",
            "__le__",
            "le",
            "__lt__",
        ):
            return torch.ones(()).bool()
        if name in ("sub", "rsub", "__sub__", "__rsub__", "abs", "max"):
            return torch.zeros(())
        with torch._C.DisableTorchFunctionSubclass():
            return function(*args, **(kwargs or {}))


_answer_everywhere(lambda *args: torch.zeros(3).as_subclass(Agreeable))
