"""An object that says it is a Tensor, a float, a list, whatever it is asked.

Kind: Strange answers
Relies on: isinstance, which believes __class__
Breaks naive: points
"""

import torch


class Liar:
    asked = 0

    @property
    def __class__(self):
        kinds = (
            torch.Tensor,
            float,
            int,
            list,
            tuple,
            dict,
            str,
            bytes,
            torch.Generator,
            type(None),
        )
        Liar.asked += 1
        return kinds[Liar.asked % len(kinds)]

    def __getattr__(self, name):
        return self

    def __call__(self, *args, **kwargs):
        return self

    def __eq__(self, other):
        return True

    __hash__ = None


_answer_everywhere(lambda *args: Liar())
