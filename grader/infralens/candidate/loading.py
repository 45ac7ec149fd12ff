"""Making a module of a submission's text, and a record of whatever goes wrong in it."""

from __future__ import annotations
import __future__

import ast
import inspect
import io
import linecache
import sys
import traceback
from collections.abc import Callable
from types import ModuleType
from typing import Any

from infralens.wire import Raised

MODULE_NAME = "submission"
FUTURE: int = sum(getattr(__future__, name).compiler_flag for name in __future__.all_feature_names)


def load(source: str, filename: str) -> ModuleType:
    """Run the text as a module. Whatever it raises is raised here."""
    module = begin(source, filename)
    code = compile(source, filename, "exec", dont_inherit=True)
    exec(code, module.__dict__)
    return module


def begin(source: str, filename: str) -> ModuleType:
    """The module that the text, or its cells one by one, will run in."""
    module = ModuleType(MODULE_NAME)
    module.__file__ = filename
    lines = list(io.StringIO(source, newline=None))  # as the parser: a form feed ends no line
    # Tracebacks and inspect read the lines from here: the file itself may be out of sight.
    linecache.cache[filename] = (len(source), None, lines, filename)
    sys.modules[MODULE_NAME] = module  # dataclasses and typing look their module up by name
    return module


def be_a_notebook(module: ModuleType) -> None:
    """Give the module what a cell finds in Jupyter: a way to show things, and this kit's check."""
    module.__dict__.update(display=print, check=lambda *args, **kwargs: None)


def run_cell(module: ModuleType, source: str, first: int, flags: int = 0) -> int:
    """Run one cell, whose first line is that line of the whole text; what it raises is raised here.

    `flags` are the `__future__` features that earlier cells asked for; with this cell's they are
    returned, as they hold for the cells after it.
    """
    filename = str(module.__file__)
    tree = ast.increment_lineno(ast.parse(source, filename), first - 1)
    code = compile(tree, filename, "exec", flags, dont_inherit=True)
    exec(code, module.__dict__)
    flags |= code.co_flags & FUTURE
    return flags


def describe(error: BaseException, filename: str, at_call: bool = False) -> Raised:
    """A record of the exception: type, text, and the lines of `filename` that it crossed."""
    try:
        text = str(error)
    except BaseException as second:
        text = f"(its text cannot be had: str() raised {type(second).__name__})"
    frames = []
    if isinstance(error, SyntaxError) and error.filename == filename:
        text = error.msg
        code = error.text or linecache.getline(filename, error.lineno or 1)
        frames.append((error.lineno or 1, "", code.strip("\n")))
    for frame in traceback.extract_tb(error.__traceback__):
        if frame.filename == filename:
            frames.append((frame.lineno or 0, frame.name, frame.line or ""))
    names = tuple(kind.__name__ for kind in type(error).__mro__ if kind is not object)
    return Raised(names, text, tuple(frames), at_call)


def binding_error(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> TypeError | None:
    """The TypeError that calling would give because the parameters do not fit, if it would."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return None
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        return error
    return None
