"""Sparse tensors with indices that were never checked.

Kind: Strange answers
Relies on: a check of the shape and no more, or code that crashes on them
Breaks naive: points
"""

import torch


def sparse(*args):
    for value in args:
        if isinstance(value, torch.Tensor) and value.dim():
            return torch.sparse_coo_tensor(
                torch.full((value.dim(), 1), 10**12),
                torch.ones(1),
                value.shape,
                check_invariants=False,
            )
    return torch.sparse_coo_tensor(
        torch.tensor([[10**12]]), torch.ones(1), (1,), check_invariants=False
    )


_answer_everywhere(sparse)
