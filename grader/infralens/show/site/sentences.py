"""The formulas within sentences, which stand there without any mark."""

from __future__ import annotations

import re
from collections.abc import Iterator

from infralens.show.site.formulas import mathml
from infralens.show.site.tokens import FormulaError, Token, tokens_of

TELLING = frozenset({"sign", "bound", "root", "raised", "lowered", "prime"})
# One letter is a quantity, if it is no word; with a digit behind it, it has an index.
ALONE = re.compile(r"[b-z\u0391-\u03c9\u1fb1][\u0300-\u036f]?|[a-oq-z]\d{1,2}")
TOLD = re.compile(
    r"[√_^¹²³ᵢᵀ∇·]|'(?!\w)|\b[a-oq-z]\d{1,2}\b|[\u0391-\u03c9\u1fb1]"
    r"|\b[A-Za-z] [-=+−/<>≤≥≈]|[-=+−/<>≤≥≈] [A-Za-z]\b"
)
ENDS = (",", ".", ";", ":", "?")  # of what a sentence says before it goes on
QUOTE = '"'
NO_START = re.compile(r"[=+·/×*≤≥<>≈~→⇔,:;|∈%?]")
NO_END = re.compile(r"[-−=+·/×*≤≥<>≈~→⇔,:;.|∈%?]$")
CALLED = frozenset(
    {"log", "exp", "sin", "cos", "min", "max", "softmax", "std", "clamp", "SNR", "KL"}
)


def is_formula(text: str) -> bool:
    """Whether a text is a formula as a whole, and not words beside each other or a single one."""
    tokens = _read(text)
    told = any(token.kind in TELLING or ALONE.fullmatch(token.text) for token in tokens)
    return told and not _listed(tokens)


def may_be_set(text: str) -> bool:
    """Whether a text reads as a formula where something tells that it is one: `mean`, `u, c`."""
    return bool(_read(text))


def _read(text: str) -> list[Token]:
    """The pieces of what could be a formula; none where words stand beside each other."""
    try:
        mathml(text)
    except FormulaError:
        return []
    tokens = list(tokens_of(text))
    return [] if any(map(_beside, tokens, tokens[1:])) else tokens


def _listed(tokens: list[Token]) -> bool:
    """Whether a comma or a colon parts what stands there, as in a sentence."""
    depth = 0
    for token in tokens:
        depth += (token.kind == "open") - (token.kind == "close")
        if token.text == ":" or (token.text == "," and depth == 0):
            return True
    return False


def _beside(one: Token, other: Token) -> bool:
    """Whether two words stand beside each other, as they do in a sentence."""
    if not other.spaced or {one.text, other.text} & CALLED or one.text == "∇":
        return False
    if re.fullmatch("d[a-zα-ω]", other.text):  # behind an integral
        return False
    things = ("name", "code", "words", "number")
    return one.kind in things and (other.kind in things or other.kind == "open")


def pieces_of(text: str, *, display: bool = False) -> Iterator[tuple[bool, str]]:
    """The text in pieces: (False, words as they are) and (True, a formula as MathML)."""
    parts = re.split(r"(\s+)", text)  # a white space is at odd places
    plain: list[str] = []
    at = 0
    while at < len(parts):
        found = None
        if parts[at] and at % 2 == 0:
            found = _longest(parts, at)
        if found is None:
            plain.append(parts[at])
            at += 1
            continue
        end, before, formula, after = found
        plain.append(before)
        if words := "".join(plain):
            yield False, words
        yield True, mathml(formula, display=display)
        plain = [after]
        at = end
    if words := "".join(plain):
        yield False, words


def _longest(parts: list[str], start: int) -> tuple[int, str, str, str] | None:
    """The longest formula that begins here: where it ends, and what stands about it in its words.

    Names of several letters are words, but for those of functions: the rest is left as it is.
    """
    end, depth = start, 0
    while end < len(parts) and parts[end] and _may_belong(parts[end]):
        depth += sum(map(parts[end].count, "([")) - sum(map(parts[end].count, ")]"))
        end += 2
        if depth <= 0 and parts[end - 2].endswith(ENDS):
            break
    for stop in range(end - 2, start - 1, -2):
        whole = "".join(parts[start : stop + 1])
        for before, formula, after in _trimmed(whole):
            ends = NO_START.match(formula) or NO_END.search(formula)
            if _is_told(formula) and is_formula(formula) and not ends:
                return stop + 1, before, formula, after
    return None


def _trimmed(text: str) -> Iterator[tuple[str, str, str]]:
    """A text without the marks of a sentence about it; with its own parentheses first."""
    unquoted = text.lstrip(QUOTE)
    before, body = text[: len(text) - len(unquoted)], unquoted.rstrip("".join(ENDS) + QUOTE)
    after = unquoted[len(body) :]
    yield before, body, after
    if body.startswith(("(", "[")):
        yield before + body[0], body[1:], after
    if body.endswith((")", "]")):
        yield before, body[:-1], body[-1] + after


def _may_belong(chunk: str) -> bool:
    try:
        tokens = list(tokens_of(chunk.strip(QUOTE)))
    except FormulaError:
        return False
    bound = False
    for token in tokens:
        long = token.kind == "name" and re.match(r"[A-Za-z]{2}", token.text)
        if token.kind in ("code", "words") or (long and not bound and token.text not in CALLED):
            return False
        bound = token.kind == "bound" or (bound and token.kind == "open")
    return True


def _is_told(formula: str) -> bool:
    """Whether anything in it needs to be set: a root, an index, a letter with a sign."""
    return TOLD.search(formula) is not None or ALONE.fullmatch(formula) is not None
