"""Assertions that hold whatever the code before them does, and so say nothing."""

from __future__ import annotations

import ast
from collections.abc import Iterator

REFLEXIVE = (ast.Eq, ast.Is, ast.LtE, ast.GtE)


def idle_assertions(code: str) -> Iterator[str]:
    """Each assertion of the code that cannot fail, as it stands there."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Assert) and _always(node.test):
            yield ast.unparse(node)


def _always(test: ast.expr) -> bool:
    """Whether the expression is true by its form alone."""
    match test:
        case ast.Constant(value=value):
            return bool(value)
        case ast.Tuple(elts=items) | ast.List(elts=items) | ast.Set(elts=items):
            return any(not isinstance(item, ast.Starred) for item in items)
        case ast.GeneratorExp() | ast.Lambda():
            return True
        case ast.BoolOp(op=ast.Or(), values=parts):
            return any(map(_always, parts))
        case ast.BoolOp(op=ast.And(), values=parts):
            return all(map(_always, parts))
        case ast.UnaryOp(op=ast.Not(), operand=ast.Constant(value=value)):
            return not value
        case ast.Compare(left=left, ops=[operator], comparators=[right]):
            if isinstance(operator, ast.GtE) and _is_length(left):
                return isinstance(right, ast.Constant) and right.value == 0
            return isinstance(operator, REFLEXIVE) and ast.dump(left) == ast.dump(right)
    return False


def _is_length(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and ast.unparse(node.func) == "len"
