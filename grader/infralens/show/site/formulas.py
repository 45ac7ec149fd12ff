"""Formulas as the pages write them, in Unicode, set as MathML, which browsers draw by themselves.

`x_t = √ᾱ_t·x0 + √(1 − ᾱ_t)·ε` is the source of both: a terminal prints it, here it is read. A `_`
and a `^` bind what follows, a name, a number or what is in parentheses; a digit behind one letter
is its index; a ` / ` with spaces is a fraction where there is room for one.
"""

from __future__ import annotations

import re
from html import escape

from infralens.show.site.tokens import LOWERED, PRODUCT, RAISED, FormulaError, Token, tokens_of


def mathml(formula: str, *, display: bool = False) -> str:
    """The formula as a `math` element; as `display` with fractions above each other.

    FormulaError where the text is none.
    """
    reader = _Reader(list(tokens_of(formula)), display)
    row = reader.row()
    if reader.at < len(reader.tokens):
        raise FormulaError(f"{formula!r} closes what it did not open")
    style = ' displaystyle="true"' if display else ""
    return f"<math{style}>{row}</math>"


class _Reader:
    def __init__(self, tokens: list[Token], display: bool) -> None:
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

    def _group(self, opening: Token) -> str:
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

    def _closes(self, token: Token) -> bool:
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

    def _next(self) -> Token | None:
        return self.tokens[self.at] if self.at < len(self.tokens) else None

    def _ended(self) -> bool:
        token = self._next()
        return token is None or self._closes(token)

    def _taken(self) -> Token:
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
