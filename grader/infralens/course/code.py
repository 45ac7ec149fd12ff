"""What of a submission is code: two files that differ in comments and blanks are the same work."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import tokenize
from collections.abc import Iterable, Iterator

from infralens.course.outputs import EXAMINED

MOST_READ = 2**18  # characters: a lab has a tenth of it, and a megabyte takes seconds
SILENT = {
    *(tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT),
    *(tokenize.ENCODING, tokenize.ENDMARKER),
}


def code_digest(data: bytes, name: str) -> str:
    """A digest of the code in a file, Python or notebook, without comments, blanks and outputs."""
    text = data.decode("utf-8-sig", "backslashreplace")
    if name.lower().endswith(".ipynb"):
        text = _cells(text)
    if len(text) <= MOST_READ:
        with contextlib.suppress(tokenize.TokenError, SyntaxError, ValueError):
            return _digest(_tokens(text))
    return _digest("".join(line.split()) for line in text.splitlines())  # it is no Python


def _digest(words: Iterable[str]) -> str:
    total = hashlib.sha256()
    for word in words:
        if word:
            total.update(word.encode("utf-8", "replace") + b"\n")
    return total.hexdigest()


def _tokens(text: str) -> Iterator[str]:
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in SILENT:
            yield token.string


def _cells(text: str) -> str:
    """The code cells of a notebook; its whole text where it is none, or one that nobody reads."""
    if len(text) > EXAMINED:
        return text
    try:
        cells = json.loads(text)["cells"]
        sources = [cell["source"] for cell in cells if cell["cell_type"] == "code"]
        return "\n".join(s if isinstance(s, str) else "".join(s) for s in sources)
    except (ValueError, KeyError, TypeError, RecursionError):
        return text
