"""`python -m infralens.authoring.early_uses [LAB …]`: answers used before they are looked at.

An answer is a suspect until an assertion has passed it. Before that no closure of an assertion may
hold it, no equality may have it on the other side, and nothing may compute with it: not arithmetic,
a comparison, a condition, a text made of it, `float()`, a method of a tensor nor a function of
torch. The suite is read, never run. Helpers are followed through their calls, as are methods of the
suite's own classes, which are known by their names alone; what a lent function does is not.
"""

from __future__ import annotations

import ast
import functools
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from pathlib import Path
from typing import NamedTuple

from infralens.labs import find_lab, find_labs

CLOSURES = ("library", "truth", "equals", "computed")
ASSERTIONS = {
    "assert_agrees",
    "assert_calls",
    "assert_equals",
    "assert_form",
    "assert_matches",
    "assert_matches_formula",
    "assert_number",
    "assert_property",
    "assert_tensor",
}
KEPT_BY = {"cache", "partial", "sorted"}
KEEPING = {
    *("as_pixels", "unpack", "list", "tuple", "dict", "set", "zip", "enumerate", "reversed"),
    *("iter", "next"),
}
ASKING = {"fetch", "state_of", "requires_grad"}  # the candidate, for more answers
HOLDING = {"given", "metered", "keep"}  # an object in the candidate
LENDING = {"recorded", "remote"}
HARMLESS = {
    *("isinstance", "type", "len", "id", "repr", "str", "hasattr", "callable", "print", "all"),
    *("any", "told", "comparable", "form_of", "set_state", "with_gradients", "kind"),
}
LOOKING = {"shape", "dtype", "device", "ndim", "layout", "requires_grad", "is_cuda"}
LOOKED_WITH = {
    *("dim", "size", "numel", "is_floating_point", "is_complex", "keys", "data_ptr"),
    *("endswith", "startswith"),
}
COMPUTING = {
    *("abs", "add", "all", "allclose", "amax", "amin", "any", "argmax", "bool", "chunk", "clamp"),
    *("clone", "contiguous", "cpu", "cumsum", "detach", "diff", "div", "double", "einsum", "eq"),
    *("equal", "exp", "expand", "flatten", "flip", "float", "gt", "half", "int", "isfinite"),
    *("item", "log", "log2", "long", "lt", "matmul", "max", "mean", "min", "mul", "norm"),
    *("numpy", "permute", "pow", "repeat", "reshape", "round", "split", "sqrt", "squeeze", "std"),
    *("strip", "sub", "sum", "to", "tolist", "transpose", "unsqueeze", "var", "view", "unflatten"),
}
DEEPEST = 12  # helpers that call helpers


class Taint(IntEnum):
    """What a value may be. Of two, the larger one counts."""

    CLEAN = 0
    RECORD = 1  # ours, with a record of its uses: by us, as long as nobody else has it
    LENT = 2  # the same in the hands of the submission
    HANDLE = 3  # the candidate, or an object in it
    SUSPECT = 4  # an answer that nothing has looked at


Shape = Taint | tuple["Shape", ...]


def flat(shape: Shape) -> Taint:
    """The worst of the parts."""
    return shape if isinstance(shape, Taint) else max(map(flat, shape), default=Taint.CLEAN)


def merged(one: Shape, other: Shape) -> Shape:
    """What may be either."""
    if isinstance(one, tuple) and isinstance(other, tuple) and len(one) == len(other):
        return tuple(merged(a, b) for a, b in zip(one, other, strict=True))
    return max(flat(one), flat(other))


@dataclass(frozen=True, order=True)
class Use:
    """One use of an answer before an assertion has passed it."""

    path: Path
    line: int
    sentence: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.sentence}"


Function = ast.FunctionDef | ast.Lambda


class _Called(NamedTuple):
    """A function of the suite's own, and the object whose method it is."""

    module: _Module
    function: ast.FunctionDef
    around: _Scope
    bound_to: ast.expr | None = None


@dataclass
class _Scope:
    """The names of one function, and those around it."""

    names: dict[str, Taint] = field(default_factory=dict)
    functions: dict[str, tuple[ast.FunctionDef, _Scope]] = field(default_factory=dict)
    around: _Scope | None = None
    passed: set[str] = field(default_factory=set)
    returned: Shape | None = None

    def taint(self, name: str) -> Taint:
        if name in self.names:
            return self.names[name]
        return self.around.taint(name) if self.around else Taint.CLEAN

    def function(self, name: str) -> tuple[ast.FunctionDef, _Scope] | None:
        if name in self.functions:
            return self.functions[name]
        return self.around.function(name) if self.around else None

    def has_passed(self, text: str) -> bool:
        return text in self.passed or bool(self.around and self.around.has_passed(text))

    def set(self, name: str, taint: Taint) -> None:
        scope: _Scope | None = self
        while scope is not None and name not in scope.names:
            scope = scope.around
        if scope is not None:
            scope.names[name] = taint

    def clear(self, name: str) -> None:
        if self.taint(name) is Taint.SUSPECT:
            self.set(name, Taint.CLEAN)
        self.passed.add(name)


class _Module:
    """One file of a suite: its functions, its classes, and the files of the suite it imports."""

    def __init__(self, path: Path, uses: set[Use], known: dict[Path, _Module]) -> None:
        known[path] = self
        self.path, self.uses = path, uses
        self.tree = ast.parse(path.read_text(encoding="utf-8"), str(path))
        self.scope = _Scope()
        self.classes = {
            node.name: {part.name: part for part in node.body if isinstance(part, ast.FunctionDef)}
            for node in self.tree.body
            if isinstance(node, ast.ClassDef)
        }
        self.siblings: dict[str, _Module] = {}
        self.imported: dict[str, tuple[_Module, str]] = {}
        for node in self.tree.body:
            if isinstance(node, ast.FunctionDef):
                self.scope.functions[node.name] = (node, self.scope)
            elif isinstance(node, ast.ImportFrom) and "suites" in (node.module or ""):
                self._import(node, known)

    def _import(self, node: ast.ImportFrom, known: dict[Path, _Module]) -> None:
        last = (node.module or "").split(".")[-1]
        for alias in node.names:
            name = alias.asname or alias.name
            whole = self.path.with_name(f"{alias.name}.py")
            part = self.path.with_name(f"{last}.py")
            if whole.is_file():
                self.siblings[name] = known.get(whole) or _Module(whole, self.uses, known)
            elif part.is_file():
                module = known.get(part) or _Module(part, self.uses, known)
                self.imported[name] = (module, alias.name)

    def methods(self, name: str) -> Iterator[tuple[_Module, ast.FunctionDef]]:
        """What is called by this name on an object of the suite's own classes."""
        found = {id(self): self, **{id(one): one for one in self.siblings.values()}}
        found |= {id(one): one for one, _ in self.imported.values()}
        for module in found.values():
            for methods in module.classes.values():
                if name in methods:
                    yield module, methods[name]

    def checks(self) -> Iterator[ast.FunctionDef]:
        for node in self.tree.body:
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                yield node


class _Reader:
    """Reads one function with what its arguments are known to be."""

    def __init__(self, module: _Module, scope: _Scope, depth: int = 0, closure: str = "") -> None:
        self.module, self.scope, self.depth, self.closure = module, scope, depth, closure

    # Statements

    def read(self, body: Iterable[ast.stmt]) -> None:
        for statement in body:
            self._statement(statement)

    def _statement(self, node: ast.stmt) -> None:
        if isinstance(node, ast.FunctionDef):
            self.scope.functions[node.name] = (node, self.scope)
        elif isinstance(node, ast.Assign):
            shape = self.shape(node.value)
            for target in node.targets:
                self._bind(target, shape)
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            self._bind(node.target, self.shape(node.value))
        elif isinstance(node, ast.AugAssign):
            if Taint.SUSPECT in (self.taint(node.target), self.taint(node.value)):
                self._flag(node, f"arithmetic on {_text(node.target)}")
        elif isinstance(node, ast.Return):
            shape = self.shape(node.value) if node.value else Taint.CLEAN
            before = self.scope.returned
            self.scope.returned = shape if before is None else merged(before, shape)
        elif isinstance(node, ast.For):
            for _ in range(2):
                self._bind(node.target, self._item(node.iter))
                self.read(node.body)
            self.read(node.orelse)
        elif isinstance(node, ast.While):
            self._truth(node.test)
            self.read(node.body)
        elif isinstance(node, ast.If):
            self._truth(node.test)
            earlier = dict(self.scope.names)
            self.read(node.body)
            after, self.scope.names = self.scope.names, earlier
            self.read(node.orelse)
            for name, taint in after.items():
                self.scope.names[name] = max(taint, self.scope.names.get(name, Taint.CLEAN))
        elif isinstance(node, ast.With):
            for item in node.items:
                taint = self.taint(item.context_expr)
                if item.optional_vars is not None:
                    self._bind(item.optional_vars, taint)
            self.read(node.body)
        elif isinstance(node, ast.Try):
            self.read(node.body)
            for handler in node.handlers:
                self.read(handler.body)
            self.read([*node.orelse, *node.finalbody])
        else:
            for child in ast.iter_child_nodes(node):
                if isinstance(child, ast.expr):
                    self.taint(child)

    def _bind(self, target: ast.expr, shape: Shape) -> None:
        if isinstance(target, ast.Tuple | ast.List):
            for inner, part in zip(target.elts, _spread(target.elts, shape), strict=True):
                self._bind(inner, part)
        elif isinstance(target, ast.Starred):
            self._bind(target.value, flat(shape))
        elif isinstance(target, ast.Name):
            self.scope.names[target.id] = flat(shape)
            self.scope.functions.pop(target.id, None)
            self.scope.passed = {
                path for path in self.scope.passed if not path.startswith(target.id)
            }
        elif flat(shape) is Taint.SUSPECT and (root := _root(target)):
            self.scope.names[root] = Taint.SUSPECT

    def shape(self, node: ast.expr) -> Shape:
        """The value's taint, part by part where its parts are known."""
        if isinstance(node, ast.Tuple) and not any(isinstance(e, ast.Starred) for e in node.elts):
            return tuple(self.shape(part) for part in node.elts)
        if isinstance(node, ast.Call) and (found := self._ours(node.func)):
            shapes = [self._followed(node, one) for one in found]
            return functools.reduce(merged, shapes)
        return self.taint(node)

    def _item(self, node: ast.expr) -> Shape:
        """What one turn of a loop over this gives."""
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            if node.func.id == "enumerate":
                return Taint.CLEAN, self._item(node.args[0])
            if node.func.id == "zip":
                return tuple(self._item(argument) for argument in node.args)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            if node.func.attr == "items":
                return Taint.CLEAN, self.taint(node.func.value)
            if node.func.attr == "keys":
                self.taint(node)
                return Taint.CLEAN
        if isinstance(node, ast.Tuple | ast.List) and node.elts:
            shapes = [self.shape(part) for part in node.elts]
            found: Shape = shapes[0]
            for shape in shapes[1:]:
                found = merged(found, shape)
            return found
        return self.taint(node)

    # Expressions

    def taint(self, node: ast.expr | None) -> Taint:
        """What this expression's value may be; the uses in it are noted."""
        if node is None:
            return Taint.CLEAN
        read = getattr(self, f"_{type(node).__name__.lower()}", None)
        found: Taint = read(node) if read else self._held(node)
        if self.closure and found is Taint.SUSPECT and isinstance(node, ast.Name | ast.Attribute):
            self._flag(node, f"{_text(node)} in a closure of {self.closure}")
            return Taint.CLEAN
        return found

    def _held(self, node: ast.AST) -> Taint:
        taints = [self.taint(n) for n in ast.iter_child_nodes(node) if isinstance(n, ast.expr)]
        return max(taints, default=Taint.CLEAN)

    def _name(self, node: ast.Name) -> Taint:
        return self.scope.taint(node.id)

    def _constant(self, node: ast.Constant) -> Taint:
        return Taint.CLEAN

    def _joinedstr(self, node: ast.JoinedStr) -> Taint:
        self._held(node)
        return Taint.CLEAN

    def _formattedvalue(self, node: ast.FormattedValue) -> Taint:
        if self.taint(node.value) is Taint.SUSPECT:  # 1, 1.0 and "1" may be one text
            self._flag(node, f"{_text(node.value)} as text")
        return Taint.CLEAN

    def _truth(self, node: ast.expr) -> Taint:
        """The value of a condition: a suspect decides nothing."""
        found = self.taint(node)
        if found is Taint.SUSPECT:
            self._flag(node, f"{_text(node)} as a condition")
        return found

    def _attribute(self, node: ast.Attribute) -> Taint:
        if self.scope.has_passed(_text(node)):
            return Taint.CLEAN
        of = self.taint(node.value)
        if of is Taint.LENT:
            return Taint.SUSPECT if node.attr in ("calls", "uses") else Taint.CLEAN
        if of is Taint.HANDLE:
            return Taint.HANDLE if _text(node.value) == "candidate" else Taint.SUSPECT
        if of is Taint.SUSPECT and node.attr in LOOKING:
            return Taint.CLEAN
        return of

    def _subscript(self, node: ast.Subscript) -> Taint:
        if self.scope.has_passed(_text(node)):
            return Taint.CLEAN
        of, index = self.taint(node.value), self.taint(node.slice)
        if index is Taint.SUSPECT and of is not Taint.SUSPECT:
            self._flag(node, f"{_text(node.slice)} as an index")
        return of

    def _binop(self, node: ast.BinOp) -> Taint:
        if Taint.SUSPECT in (self.taint(node.left), self.taint(node.right)):
            self._flag(node, f"arithmetic: {_text(node)}")
        return Taint.CLEAN

    def _unaryop(self, node: ast.UnaryOp) -> Taint:
        if isinstance(node.op, ast.Not):
            self._truth(node.operand)
        elif self.taint(node.operand) is Taint.SUSPECT:
            self._flag(node, f"arithmetic: {_text(node)}")
        return Taint.CLEAN

    def _boolop(self, node: ast.BoolOp) -> Taint:
        *conditions, last = node.values
        return max(self.taint(last), *map(self._truth, conditions))

    def _compare(self, node: ast.Compare) -> Taint:
        suspect = [self.taint(side) is Taint.SUSPECT for side in (node.left, *node.comparators)]
        identity = all(isinstance(op, ast.Is | ast.IsNot) for op in node.ops)
        if any(suspect) and not identity:
            self._flag(node, f"a comparison: {_text(node)}")
        return Taint.CLEAN

    def _ifexp(self, node: ast.IfExp) -> Taint:
        self._truth(node.test)
        return max(self.taint(node.body), self.taint(node.orelse))

    def _namedexpr(self, node: ast.NamedExpr) -> Taint:
        taint = self.taint(node.value)
        self._bind(node.target, taint)
        return taint

    def _lambda(self, node: ast.Lambda) -> Taint:
        return min(self._inside(node, {}, self.scope), Taint.HANDLE)  # its calls give answers

    def _listcomp(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp) -> Taint:
        return self._comprehension(node.generators, [node.elt])

    _setcomp = _generatorexp = _listcomp

    def _dictcomp(self, node: ast.DictComp) -> Taint:
        return self._comprehension(node.generators, [node.key, node.value])

    def _comprehension(self, generators: list[ast.comprehension], made: list[ast.expr]) -> Taint:
        inner = _Reader(self.module, _Scope(around=self.scope), self.depth, self.closure)
        for generator in generators:
            inner._bind(generator.target, inner._item(generator.iter))
            for test in generator.ifs:
                inner._truth(test)
        return max(inner.taint(part) for part in made)

    # Calls

    def _call(self, node: ast.Call) -> Taint:
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        if name in ASSERTIONS:
            return self._assertion(node)
        if self._ours(node.func):
            return flat(self.shape(node))
        if isinstance(node.func, ast.Attribute) and not self._is_module(node.func.value):
            return self._method(node, node.func)
        if name and self.scope.taint(name) in (Taint.HANDLE, Taint.SUSPECT):
            self._arguments(node)
            self._lend(node)
            return Taint.SUSPECT
        if isinstance(node.func, ast.Call) and self.taint(node.func) is Taint.HANDLE:
            self._arguments(node)  # what `getattr` found there
            return Taint.SUSPECT
        held = max(self._arguments(node), default=Taint.CLEAN)
        if name in ASKING:
            return Taint.SUSPECT
        if name in HOLDING:
            return Taint.HANDLE
        if name in LENDING:
            return Taint.RECORD
        if name in KEEPING or _last(node.func) in KEPT_BY or self._is_class(node.func):
            return held
        if name == "getattr" and held is not Taint.SUSPECT:
            return held
        if held is Taint.SUSPECT and name not in (*HARMLESS, "assert_raises"):
            self._flag(node, f"an answer is handed to {_text(node.func)}")
        return Taint.CLEAN

    def _arguments(self, node: ast.Call) -> list[Taint]:
        return [self.taint(part) for part in (*node.args, *(k.value for k in node.keywords))]

    def _assertion(self, node: ast.Call) -> Taint:
        for argument in node.args:
            self.taint(argument)
        for keyword in node.keywords:
            if keyword.arg in CLOSURES:
                self._closed(keyword.value, keyword.arg)
            elif self.taint(keyword.value) is Taint.SUSPECT:
                self._flag(
                    keyword.value, f"{_text(keyword.value)} as {keyword.arg} of an assertion"
                )
        for argument in node.args[:1]:
            self._pass(argument)
        return Taint.CLEAN

    def _closed(self, node: ast.expr, keyword: str) -> None:
        """A closure of an assertion: nothing in it may be a suspect."""
        inner = _Reader(self.module, self.scope, self.depth, keyword)
        found = self.scope.function(node.id) if isinstance(node, ast.Name) else None
        if found is not None:
            inner._inside(found[0], {}, found[1])
        else:
            inner.taint(node)

    def _pass(self, node: ast.expr) -> None:
        """An assertion has looked at this."""
        if isinstance(node, ast.Tuple | ast.List):
            for part in node.elts:
                self._pass(part)
        elif isinstance(node, ast.Name):
            self.scope.clear(node.id)
        elif (root := _root(node)) and self.scope.taint(root) is not Taint.HANDLE:
            self.scope.passed.add(_text(node))  # what an object gives is asked for anew each time

    def _method(self, node: ast.Call, func: ast.Attribute) -> Taint:
        of = self.taint(func.value)
        held = max(self._arguments(node), default=Taint.CLEAN)
        if of is Taint.HANDLE:
            self._lend(node)
            return Taint.HANDLE if func.attr[:1].isupper() or func.attr == "kept" else Taint.SUSPECT
        if of is Taint.SUSPECT:
            if func.attr in COMPUTING:
                self._flag(node, f"`.{func.attr}()` of {_text(func.value)}")
                return Taint.CLEAN
            return Taint.CLEAN if func.attr in LOOKED_WITH else Taint.SUSPECT
        if held is Taint.SUSPECT:
            if func.attr in ("append", "extend", "setdefault") and (root := _root(func.value)):
                self.scope.names[root] = Taint.SUSPECT
            elif func.attr != "join" and not func.attr.startswith("assert_"):
                self._flag(node, f"an answer is handed to {_text(func)}")
        return Taint.CLEAN

    def _lend(self, node: ast.Call) -> None:
        """What records its uses is in the submission's hands after this."""
        for part in (*node.args, *(keyword.value for keyword in node.keywords)):
            if isinstance(part, ast.Name) and self.scope.taint(part.id) is Taint.RECORD:
                self.scope.set(part.id, Taint.LENT)

    def _is_class(self, func: ast.expr) -> bool:
        """A class of the suite's own: its objects hold what they are made with."""
        if isinstance(func, ast.Attribute) and isinstance(func.value, ast.Name):
            module = self.module.siblings.get(func.value.id)
            return module is not None and func.attr in module.classes
        return isinstance(func, ast.Name) and func.id in self.module.classes

    def _is_module(self, node: ast.expr) -> bool:
        """`torch.` and `math.` are called as functions, not as methods of a value."""
        root = _root(node)
        return bool(root) and root not in _bound(self.scope)

    def _ours(self, func: ast.expr) -> list[_Called]:
        """The suite's own functions that may be called here, with the scope around each."""
        if isinstance(func, ast.Name):
            if found := self.scope.function(func.id):
                return [_Called(self.module, *found)]
            if func.id in self.module.imported:
                module, name = self.module.imported[func.id]
                if found := module.scope.function(name):
                    return [_Called(module, *found)]
        elif isinstance(func, ast.Attribute) and self._is_module(func.value):
            sibling = self.module.siblings.get(_root(func))
            if sibling is not None and (found := sibling.scope.function(func.attr)):
                return [_Called(sibling, *found)]
        elif isinstance(func, ast.Attribute) and _text(func.value) != "candidate":
            return [
                _Called(module, method, module.scope, func.value)
                for module, method in self.module.methods(func.attr)
            ]
        return []

    def _followed(self, node: ast.Call, called: _Called) -> Shape:
        module, function, around = called.module, called.function, called.around
        names = [a.arg for a in (*function.args.posonlyargs, *function.args.args)]
        given: dict[str, Taint] = {}
        sources: dict[str, ast.expr] = {}
        kind = {_last(decorator) for decorator in function.decorator_list}
        bound = [called.bound_to] if called.bound_to and "staticmethod" not in kind else []
        for place, argument in enumerate([*bound, *node.args]):
            taint = self.taint(argument)
            name = names[place] if place < len(names) else "*"
            if function.args.vararg is not None and name == "*":
                name = function.args.vararg.arg
            given[name] = max(taint, given.get(name, Taint.CLEAN))
            sources[name] = argument
        for keyword in node.keywords:
            name = keyword.arg or "**"
            given[name], sources[name] = self.taint(keyword.value), keyword.value
        if self.depth >= DEEPEST:
            return max(given.values(), default=Taint.CLEAN)
        reader = _Reader(module, around, self.depth + 1, "")
        scope = _Scope(names=dict(given), around=around)
        for name in (*names, *(a.arg for a in function.args.kwonlyargs)):
            scope.names.setdefault(name, Taint.CLEAN)
        reader.scope = scope
        reader.read(function.body)
        for name, source in sources.items():
            if given[name] is Taint.SUSPECT and scope.names.get(name) is Taint.CLEAN:
                self._pass(source)
            elif given[name] is Taint.RECORD and scope.names.get(name) is Taint.LENT:
                self.scope.set(_root(source), Taint.LENT)
        return scope.returned or Taint.CLEAN

    def _inside(self, node: Function, given: Mapping[str, Taint], around: _Scope) -> Taint:
        if self.depth >= DEEPEST:
            return Taint.CLEAN
        scope = _Scope(names=dict(given), around=around)
        for argument in (*node.args.args, *node.args.kwonlyargs):
            scope.names.setdefault(argument.arg, Taint.CLEAN)
        reader = _Reader(self.module, scope, self.depth + 1, self.closure)
        if isinstance(node, ast.Lambda):
            return reader.taint(node.body)
        reader.read(node.body)
        return flat(scope.returned or Taint.CLEAN)

    def _flag(self, node: ast.AST, what: str) -> None:
        sentence = f"{what}, before an assertion has passed it"
        self.module.uses.add(Use(self.module.path, getattr(node, "lineno", 0), sentence))


def _spread(targets: list[ast.expr], shape: Shape) -> list[Shape]:
    """The part of a value that each of several targets takes."""
    starred = [place for place, target in enumerate(targets) if isinstance(target, ast.Starred)]
    if isinstance(shape, tuple) and starred and len(shape) >= len(targets) - 1:
        first, after = starred[0], len(targets) - starred[0] - 1
        rest = len(shape) - after
        return [*shape[:first], tuple(shape[first:rest]), *shape[rest:]]
    if isinstance(shape, tuple) and len(shape) == len(targets):
        return list(shape)
    return [flat(shape)] * len(targets)


def _bound(scope: _Scope | None) -> set[str]:
    """The names that are variables here."""
    names: set[str] = set()
    while scope is not None:
        names |= scope.names.keys()
        scope = scope.around
    return names


def _last(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def _root(node: ast.expr) -> str:
    while isinstance(node, ast.Attribute | ast.Subscript | ast.Starred):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def _text(node: ast.expr) -> str:
    text = ast.unparse(node)
    return text if len(text) <= 60 else text[:57] + "..."


def suspect_uses(suite: Path) -> list[Use]:
    """The uses of answers that no assertion has passed, in the checks of a suite's folder."""
    uses: set[Use] = set()
    known: dict[Path, _Module] = {}
    for path in sorted(suite.glob("test_*.py")):
        module = known.get(path) or _Module(path, uses, known)
        for check in module.checks():
            names = {argument.arg: Taint.CLEAN for argument in check.args.args}
            if "candidate" in names:
                names["candidate"] = Taint.HANDLE
            _Reader(module, _Scope(names=names, around=module.scope)).read(check.body)
    return sorted(uses)


def main(arguments: list[str]) -> int:
    """List them for the labs that are named, or for all."""
    known = find_labs()
    labs = [find_lab(name, known) for name in arguments] or known
    found = [use for lab in labs for use in suspect_uses(lab.suite)]
    for use in found:
        print(use)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
