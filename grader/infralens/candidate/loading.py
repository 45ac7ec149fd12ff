"""Making a module of a submission's text, and a record of whatever goes wrong in it."""

from __future__ import annotations

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


def load(source: str, filename: str) -> ModuleType:
    """Run the text as a module. Whatever it raises is raised here."""
    module = ModuleType(MODULE_NAME)
    module.__file__ = filename
    lines = list(io.StringIO(source, newline=None))  # as the parser: a form feed ends no line
    # Tracebacks and inspect read the lines from here: the file itself may be out of sight.
    linecache.cache[filename] = (len(source), None, lines, filename)
    sys.modules[MODULE_NAME] = module  # dataclasses and typing look their module up by name
    code = compile(source, filename, "exec", dont_inherit=True)
    exec(code, module.__dict__)
    return module


def describe(error: BaseException, filename: str, at_call: bool = False) -> Raised:
    """A record of the exception: type, text, and the lines of `filename` that it crossed."""
    try:
        text = str(error)
    except BaseException as second:
        text = f"(its text cannot be had: str() raised {type(second).__name__})"
    frames = []
    if isinstance(error, SyntaxError) and error.filename == filename:
        text = error.msg
        frames.append((error.lineno or 1, "", (error.text or "").strip("\n")))
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
