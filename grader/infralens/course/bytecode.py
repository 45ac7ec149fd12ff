"""What stands in Python's bytecode: the words of each function in order, and its texts.

A compiled answer holds no line of it. But its names, constants and operators stand there in an
order of their own, which is the same wherever the line was compiled.

Bytecode of others is read in a process of its own (`python -m infralens.course.bytecode < FILE`):
what is not well formed may end the interpreter.
"""

from __future__ import annotations

import dis
import importlib.util
import json
import marshal
import subprocess
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import CodeType

from infralens.stubs import lines_of

HEADER = 16  # bytes before the code: magic number, flags, date, size
LEAST_WORDS = 7  # `return sample / scale` are four
SECONDS = 30
MEMORY = 2**30
MOST_SHOWN = 200  # letters of a constant: one may be loaded a million times
Words = tuple[str, ...]
SILENT = {"RESUME", "CACHE", "PRECALL", "PUSH_NULL", "COPY_FREE_VARS", "MAKE_CELL", "POP_TOP"}
SILENT |= {"NOP", "SWAP", "COPY", "EXTENDED_ARG", "MAKE_FUNCTION", "SET_FUNCTION_ATTRIBUTE"}


class UnreadableBytecodeError(Exception):
    """It cannot be read here; the text says why."""


@dataclass(frozen=True)
class Compiled:
    """The words of every function, and every text among the constants."""

    functions: tuple[Words, ...]
    texts: tuple[str, ...]


def is_bytecode(data: bytes) -> bool:
    """Whether it looks like a .pyc of any Python 3."""
    return data[2:4] == b"\r\n" and data[1] in (0x0C, 0x0D, 0x0E, 0x0F) and len(data) > HEADER


def read(data: bytes) -> Compiled:
    """What stands in a .pyc of this Python. UnreadableBytecodeError for any other."""
    if data[:4] != importlib.util.MAGIC_NUMBER:
        raise UnreadableBytecodeError("it was compiled by another Python")
    try:
        done = subprocess.run(
            [sys.executable, "-I", "-m", "infralens.course.bytecode"],
            input=data,
            capture_output=True,
            timeout=SECONDS,
            check=True,
        )
        found = json.loads(done.stdout)
    except (subprocess.SubprocessError, ValueError):
        raise UnreadableBytecodeError("it is no bytecode that can be read") from None
    return Compiled(tuple(tuple(words) for words in found["functions"]), tuple(found["texts"]))


def words_of_lines(source: str, lines: Collection[int] | None) -> Iterator[tuple[Words, str]]:
    """What each of these lines (None: all) is compiled to, where that is enough, and the line."""
    written = lines_of(source)
    for code in _codes(compile(source, "answer", "exec", dont_inherit=True)):
        by_line: dict[int, list[str]] = {}
        for instruction in dis.get_instructions(code):
            line = instruction.positions.lineno if instruction.positions else None
            if line is not None and (lines is None or line in lines):
                by_line.setdefault(line, []).extend(_words(instruction))
        for line, words in by_line.items():
            if len(words) >= LEAST_WORDS:
                yield tuple(words), written[line - 1].strip()


def functions_of(source: str) -> Iterator[Words]:
    """The words of each function of a source."""
    for code in _codes(compile(source, "stub", "exec", dont_inherit=True)):
        yield _all_words(code)


def holds(functions: Iterable[Words], first: Mapping[Words, Sequence[Words]]) -> Iterator[Words]:
    """Every row of words that stands in one of the functions; `first` has them by their start."""
    for words in functions:
        for at in range(len(words) - LEAST_WORDS + 1):
            for whole in first.get(words[at : at + LEAST_WORDS], ()):
                if words[at : at + len(whole)] == whole:
                    yield whole


def _codes(code: CodeType) -> Iterator[CodeType]:
    waiting = [code]
    while waiting:
        code = waiting.pop()
        yield code
        waiting += [inner for inner in code.co_consts if isinstance(inner, CodeType)]


def _all_words(code: CodeType) -> Words:
    return tuple(word for one in dis.get_instructions(code) for word in _words(one))


def _words(instruction: dis.Instruction) -> Iterator[str]:
    """The same for a local, a global and a free name, for one instruction or two in one."""
    name, value = instruction.opname, instruction.argval
    if name in SILENT or "JUMP" in name:
        return
    if name in ("LOAD_CONST", "RETURN_CONST", "LOAD_SMALL_INT"):
        if not isinstance(value, CodeType):
            shown = sorted(map(repr, value)) if isinstance(value, frozenset) else repr(value)
            yield f"const {shown}"[:MOST_SHOWN]
        if name == "RETURN_CONST":
            yield "RETURN_VALUE"
    elif name.startswith(("LOAD_", "STORE_", "DELETE_")):
        kind = "." if "ATTR" in name or "METHOD" in name else name.partition("_")[0]
        for one in value if isinstance(value, tuple) else (value,):
            yield f"{kind} {one}"
    else:
        yield f"{name} {instruction.argrepr or instruction.arg}"


def _texts(code: CodeType) -> Iterator[str]:
    """Every text among the constants, in tuples as well."""
    waiting: list[object] = list(code.co_consts)
    while waiting:
        value = waiting.pop()
        if isinstance(value, tuple | frozenset):
            waiting += value
        elif isinstance(value, str | bytes):
            yield value if isinstance(value, str) else value.decode("latin-1")


def _main() -> None:
    if sys.platform == "linux":
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
    code = marshal.loads(sys.stdin.buffer.read()[HEADER:])  # that is why we are alone
    found = {"functions": [], "texts": []}  # type: dict[str, list[object]]
    for one in _codes(code):
        found["functions"].append(_all_words(one))
        found["texts"] += _texts(one)
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    _main()
