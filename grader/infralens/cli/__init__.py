"""The command line. Every command calls one function and shows its result; torch stays out."""

from __future__ import annotations

from infralens.cli import (
    auditing,
    authors,
    classes,
    drawing,
    grading,
    kit,
    learning,
    releases,
    releasing,
    studying,
)
from infralens.cli.group import main

__all__ = [
    "auditing",
    "authors",
    "classes",
    "drawing",
    "grading",
    "kit",
    "learning",
    "main",
    "releases",
    "releasing",
    "studying",
]
