"""The command line. Every command calls one function and shows its result; torch stays out."""

from __future__ import annotations

from infralens.cli import (
    auditing,
    authors,
    classes,
    drifting,
    learning,
    making_pictures,
    publishing,
    releasing,
    setting_up,
    studying,
    verdicts,
)
from infralens.cli.group import main

__all__ = [
    "auditing",
    "authors",
    "classes",
    "drifting",
    "learning",
    "main",
    "making_pictures",
    "publishing",
    "releasing",
    "setting_up",
    "studying",
    "verdicts",
]
