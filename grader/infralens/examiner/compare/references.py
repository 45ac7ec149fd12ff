"""Reaching references in diffusers that are expensive to import."""

from __future__ import annotations

import ast
import importlib.util
import math
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch


def quiet_transformers() -> Any:
    """transformers, which pipelines import and which takes seconds, without advice and bars."""
    import diffusers
    import transformers

    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    diffusers.utils.logging.disable_progress_bar()
    return transformers


@lru_cache
def library_function(path: str, name: str) -> Callable[..., Any]:
    """A self-contained function out of a diffusers source file, without the file's imports.

    Pipelines import transformers, which takes seconds; the functions that are asked for here need
    only torch, numpy and math. `path` is relative to the installed diffusers package, `name` is a
    function's or, as "Class.method", a method's. The code is the installed library's own, so a
    changed library changes the reference.
    """
    spec = importlib.util.find_spec("diffusers")
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError("diffusers is not installed")
    file = Path(spec.origin).parent / path
    body = ast.parse(file.read_text(encoding="utf-8")).body
    *owners, last = name.split(".")
    for owner in owners:
        body = [
            inner
            for node in body
            if isinstance(node, ast.ClassDef) and node.name == owner
            for inner in node.body
        ]
    for node in body:
        if isinstance(node, ast.FunctionDef) and node.name == last:
            scope: dict[str, Any] = {"np": np, "torch": torch, "math": math}
            exec(compile(ast.Module([node], []), str(file), "exec"), scope)
            function: Callable[..., Any] = scope[last]
            return function
    raise LookupError(f"{path} of diffusers has no function {name}")
