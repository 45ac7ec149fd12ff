"""What of a submission is code: two files that differ in comments and blanks are the same work."""

from __future__ import annotations

import hashlib
import io
import json
import tokenize

SILENT = {
    *(tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT),
    *(tokenize.ENCODING, tokenize.ENDMARKER),
}


def code_digest(data: bytes, name: str) -> str:
    """A digest of the code in a file, Python or notebook, without comments, blanks and outputs."""
    text = data.decode("utf-8-sig", "backslashreplace")
    if name.lower().endswith(".ipynb"):
        text = _cells(text)
    return hashlib.sha256("\n".join(_words(text)).encode("utf-8", "replace")).hexdigest()


def _words(text: str) -> list[str]:
    """The text's tokens, or its lines without blanks where it is no Python."""
    try:
        tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
    except (tokenize.TokenError, SyntaxError, ValueError):
        return [bare for line in text.splitlines() if (bare := "".join(line.split()))]
    return [token.string for token in tokens if token.type not in SILENT]


def _cells(text: str) -> str:
    """The code cells of a notebook; its whole text where it is none."""
    try:
        cells = json.loads(text)["cells"]
        sources = [cell["source"] for cell in cells if cell["cell_type"] == "code"]
        return "\n".join(s if isinstance(s, str) else "".join(s) for s in sources)
    except (ValueError, KeyError, TypeError, RecursionError):
        return text
