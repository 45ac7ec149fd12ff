"""What suites make their networks with."""

from __future__ import annotations

import pytest
import torch

from infralens.suites.networks import frozen, plain_convolutions, seeded


def test_a_seed_gives_the_same_numbers_and_leaves_torch_where_it_was() -> None:
    before = torch.get_rng_state()
    with seeded(3):
        first = torch.rand(4)
    with seeded(3):
        again = torch.rand(4)
    assert torch.equal(first, again)
    assert torch.equal(torch.get_rng_state(), before)


def test_a_frozen_network_is_as_it_is_used() -> None:
    module = frozen(torch.nn.Dropout(0.5))
    assert not module.training
    assert not any(p.requires_grad for p in frozen(torch.nn.Linear(2, 2)).parameters())


def test_convolutions_are_plain_only_inside() -> None:
    """Also within another such block, and where what is computed raises."""
    before = torch.backends.mkldnn.enabled
    with plain_convolutions():
        with plain_convolutions():
            assert not torch.backends.mkldnn.enabled
        assert not torch.backends.mkldnn.enabled
    assert torch.backends.mkldnn.enabled == before
    with pytest.raises(RuntimeError):
        plain_convolutions()(torch.ones(2).matmul)(torch.ones(3))
    assert torch.backends.mkldnn.enabled == before
