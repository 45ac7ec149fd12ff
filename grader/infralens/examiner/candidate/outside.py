"""Which names a function or class reads from outside: those that its own code does not bind."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

Scope = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


def names_from_outside(node: ast.AST, bound: frozenset[str] = frozenset()) -> Iterator[str]:
    """A parameter or a variable that is called like a function of the file is not that function."""
    if isinstance(node, ast.Name):
        if isinstance(node.ctx, ast.Load) and node.id not in bound:
            yield node.id
        return
    if isinstance(node, Scope):
        defaults = (*node.args.defaults, *filter(None, node.args.kw_defaults))
        for default in (
            *defaults,
            *getattr(node, "decorator_list", ()),
        ):  # made where it is defined
            yield from names_from_outside(default, bound)
        bound |= _bound_by(node)
        inside: Iterable[ast.AST] = [node.body] if isinstance(node, ast.Lambda) else node.body
    else:
        inside = ast.iter_child_nodes(node)
    for child in inside:
        yield from names_from_outside(child, bound)


def _bound_by(scope: Scope) -> frozenset[str]:
    """Parameters, and what is assigned anywhere inside; `global` takes a name out again."""
    inside = list(ast.walk(scope))
    found = {node.arg for node in inside if isinstance(node, ast.arg)}
    found |= {n.id for n in inside if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    found -= {name for node in inside if isinstance(node, ast.Global) for name in node.names}
    return frozenset(found)
