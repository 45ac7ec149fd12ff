"""Formulas as the pages write them, in Unicode, set as MathML, which browsers draw by themselves.

`x_t = √ᾱ_t·x0 + √(1 − ᾱ_t)·ε` is the source of both: a terminal prints it, here it is read. A `_`
and a `^` bind what follows, a name, a number or what is in parentheses; a digit behind one letter
is its index; a ` / ` with spaces is a fraction where there is room for one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from html import escape

RAISED = dict(zip("⁰¹²³⁴⁵⁶⁷⁸⁹⁽⁾ʲᵀ", "0123456789()jT", strict=True))
LOWERED = dict(zip("₀₁₂₃₄₅₆₇₈₉ᵢⱼ", "0123456789ij", strict=True))
LETTER = "A-Za-z\u0391-\u03c9\u1fb1∇∂∞"
TOKEN = re.compile(
    rf"""(?P<space>\s+)
    |(?P<words>"[^"]*")
    |(?P<code>v_prediction|s_churn|[A-Za-z]\w*(?:\.[A-Za-z]\w*)+|\.[a-z]\w*|[A-Za-z]{{2,}}(?:_\w+)*_[A-Za-z]\w+(?:_\w+)*)
    |(?P<number>\d+(?:,\d{{3}})*(?:\.\d+)?(?:e-?\d+)?|\.\d+|[½¼])
    |(?P<large>[Σ∫])
    |(?P<name>[{LETTER}][\u0300-\u036f]?\d+(?![{LETTER}])|[{LETTER}][\u0300-\u036f]?[{LETTER}]*)
    |(?P<raised>[{"".join(RAISED)}]+)
    |(?P<lowered>[{"".join(LOWERED)}]+)
    |(?P<bound>[_^])
    |(?P<prime>['′]+)
    |(?P<root>√)
    |(?P<open>[(\[])
    |(?P<close>[)\]])
    |(?P<norm>‖)
    |(?P<sign>···|//|\?|[-=+−·/×*≤≥<>≈~→⇔,:;.…|∈%])""",
    re.VERBOSE,
)
PRODUCT = frozenset("·×*")


class FormulaError(ValueError):
    """A text that is no formula."""


@dataclass(frozen=True)
class _Token:
    kind: str
    text: str
    spaced: bool  # white space stands before it


def mathml(formula: str, *, display: bool = False) -> str:
    """The formula as a `math` element; as `display` with fractions above each other.

    FormulaError where the text is none.
    """
    reader = _Reader(list(_tokens(formula)), display)
    row = reader.row()
    if reader.at < len(reader.tokens):
        raise FormulaError(f"{formula!r} closes what it did not open")
    style = ' displaystyle="true"' if display else ""
    return f"<math{style}>{row}</math>"


def _tokens(formula: str) -> Iterator[_Token]:
    at, spaced = 0, False
    while at < len(formula):
        match = TOKEN.match(formula, at)
        if match is None or match.lastgroup is None:
            raise FormulaError(f"{formula!r} has {formula[at]!r}")
        at = match.end()
        if match.lastgroup != "space":
            yield _Token(match.lastgroup, match[0], spaced)
        spaced = match.lastgroup == "space"


class _Reader:
    def __init__(self, tokens: list[_Token], display: bool) -> None:
        self.tokens, self.display, self.at = tokens, display, 0
        self.in_norm = False

    def row(self) -> str:
        """What stands to the end, or to what closes it."""
        found: list[str] = []
        while (token := self._next()) is not None and not self._closes(token):
            if token.kind == "sign":
                self.at += 1
                found.append(_sign(token.text))
                continue
            if found and not found[-1].startswith("<mo"):
                found.append('<mspace width="0.2em"/>')  # log p
            found.append(self._product())
        return "".join(found)

    def _product(self) -> str:
        """Factors, with what multiplies or divides them."""
        found = [self._factor()]
        while (token := self._next()) is not None:
            if token.text == "/" and token.kind == "sign":
                self.at += 1
                if self._ended():
                    raise FormulaError("nothing stands below the line")
                if token.spaced and self.display:
                    below = self._factor()
                    found = [f"<mfrac>{_bare(found)}{_bare([below])}</mfrac>"]
                else:
                    found += ['<mo lspace="0" rspace="0">/</mo>', self._factor()]
            elif token.kind == "sign" and token.text in PRODUCT:
                self.at += 1
                if self._ended():
                    raise FormulaError("a product breaks off")
                found += [_sign(token.text), self._factor()]
            elif token.kind != "sign" and not self._closes(token) and not token.spaced:
                found.append(self._factor())
            else:
                break
        return f"<mrow>{''.join(found)}</mrow>" if len(found) > 1 else found[0]

    def _factor(self) -> str:
        """One thing with its indices, exponents and arguments."""
        token = self._taken()
        below = ""
        called = token.kind in ("name", "code", "large")
        match token.kind:
            case "number":
                base = f"<mn>{escape(token.text)}</mn>"
            case "name":
                base, below = _name(token.text)
            case "code":
                base = f"<mtext class='code'>{escape(token.text)}</mtext>"
            case "words":
                base = f"<mtext>{escape(token.text)}</mtext>"
            case "large":
                base = f"<mo>{token.text}</mo>"
            case "root":
                return f"<msqrt>{_bare([self._factor()])}</msqrt>"
            case "open":
                base = self._group(token)
            case "norm":
                base = self._norm()
            case _:
                raise FormulaError(f"{token.text!r} stands where something is to be")
        base = self._scripted(base, below)
        while called and (token2 := self._next()) and token2.kind == "open" and not token2.spaced:
            self.at += 1
            base = f"<mrow>{base}{self._group(token2)}</mrow>"
        return base

    def _group(self, opening: _Token) -> str:
        row = self.row()
        closing = self._taken()
        fence = '<mo fence="true" stretchy="{}">{}</mo>'
        stretchy = "true" if "<mfrac" in row else "false"
        return (
            f"<mrow>{fence.format(stretchy, opening.text)}{row}"
            f"{fence.format(stretchy, closing.text)}</mrow>"
        )

    def _norm(self) -> str:
        self.in_norm = True
        row = self.row()
        self._taken()
        self.in_norm = False
        bar = '<mo stretchy="false" lspace="0" rspace="0">‖</mo>'
        return f"<mrow>{bar}{row}{bar}</mrow>"

    def _closes(self, token: _Token) -> bool:
        return token.kind == "close" or (token.kind == "norm" and self.in_norm)

    def _scripted(self, base: str, below: str) -> str:
        above = ""
        while (token := self._next()) is not None and not token.spaced:
            if token.kind == "bound":
                self.at += 1
                if token.text == "_":
                    below += self._bound()
                else:
                    above += self._bound()
            elif token.kind == "raised":
                self.at += 1
                above += _plain("".join(RAISED[sign] for sign in token.text))
            elif token.kind == "lowered":
                self.at += 1
                below += _plain("".join(LOWERED[sign] for sign in token.text))
            elif token.kind == "prime":
                self.at += 1
                above = f"<mo>{'′' * len(token.text)}</mo>{above}"
            else:
                break
        if below and above:
            return f"<msubsup>{base}<mrow>{below}</mrow><mrow>{above}</mrow></msubsup>"
        if below:
            return f"<msub>{base}<mrow>{below}</mrow></msub>"
        return f"<msup>{base}<mrow>{above}</mrow></msup>" if above else base

    def _bound(self) -> str:
        """What a `_` or a `^` binds: what is in parentheses, else a name or a number."""
        token = self._taken()
        if token.kind == "open":
            shown, self.display = self.display, False  # a fraction would be too small to read
            row = self.row()
            self.display = shown
            self._taken()
            return row
        if token.kind not in ("name", "number"):
            raise FormulaError(f"nothing can be bound to {token.text!r}")
        return _plain(token.text)

    def _next(self) -> _Token | None:
        return self.tokens[self.at] if self.at < len(self.tokens) else None

    def _ended(self) -> bool:
        token = self._next()
        return token is None or self._closes(token)

    def _taken(self) -> _Token:
        token = self._next()
        if token is None:
            raise FormulaError("the formula breaks off")
        self.at += 1
        return token


def _name(text: str) -> tuple[str, str]:
    """A name and the index that a digit behind one letter is."""
    index = re.fullmatch(r"(.[\u0300-\u036f]?)(\d+)", text)
    return (_plain(index[1]), f"<mn>{index[2]}</mn>") if index is not None else (_plain(text), "")


def _plain(text: str) -> str:
    if text.isdigit():
        return f"<mn>{text}</mn>"
    if text == "ᾱ":
        return '<mover accent="true"><mi>α</mi><mo stretchy="false">¯</mo></mover>'
    return f"<mi>{escape(text)}</mi>"


def _sign(text: str) -> str:
    if text == "|":
        return '<mo stretchy="false" lspace="0.2em" rspace="0.2em">|</mo>'
    if text in ("…", "."):
        return f"<mo>{text}</mo>"
    return f"<mo>{escape({'-': '−', '*': '·'}.get(text, text))}</mo>"


PARENTHESIS = r'<mo fence="true" stretchy="\w+">\{}</mo>'
WHOLE_GROUP = re.compile(f"<mrow>{PARENTHESIS.format('(')}(.*){PARENTHESIS.format(')')}</mrow>")


def _bare(parts: list[str]) -> str:
    """One element; parentheses around all of it are left out, as a line or a root replaces them."""
    text = "".join(parts)
    if len(parts) == 1 and (whole := WHOLE_GROUP.fullmatch(text)) and _balanced(whole[1]):
        text = whole[1]
    return f"<mrow>{text}</mrow>"


def _balanced(row: str) -> bool:
    depth = 0
    for sign in re.findall(r">([()])<", row):
        depth += 1 if sign == "(" else -1
        if depth < 0:
            return False
    return depth == 0


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
    try:
        mathml(text)
        tokens = list(_tokens(text))
    except FormulaError:
        return False
    told = any(token.kind in TELLING or ALONE.fullmatch(token.text) for token in tokens)
    return told and not _listed(tokens) and not any(map(_beside, tokens, tokens[1:]))


def may_be_set(text: str) -> bool:
    """Whether a text reads as a formula where something tells that it is one: `mean`, `u, c`."""
    try:
        mathml(text)
        tokens = list(_tokens(text))
    except FormulaError:
        return False
    return not any(map(_beside, tokens, tokens[1:]))


def _listed(tokens: list[_Token]) -> bool:
    """Whether a comma or a colon parts what stands there, as in a sentence."""
    depth = 0
    for token in tokens:
        depth += (token.kind == "open") - (token.kind == "close")
        if token.text == ":" or (token.text == "," and depth == 0):
            return True
    return False


def _beside(one: _Token, other: _Token) -> bool:
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
        tokens = list(_tokens(chunk.strip(QUOTE)))
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
