"""Runs beside the learner's code: a layer that makes no tensor. It holds no answers."""

from __future__ import annotations

from typing import Any


class IdleLayer:
    """A layer or a downsampling that returns the very tensor it is given."""

    def __call__(self, *given: Any) -> Any:
        return given[-1]


def idle_layer() -> IdleLayer:
    return IdleLayer()
