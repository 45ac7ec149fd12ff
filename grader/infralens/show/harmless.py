"""Text that a submission controls, made harmless to show."""

from __future__ import annotations

import unicodedata

KEPT = "\n\t"
MAX_LINES = 40
MAX_LINE = 400


def harmless(text: str) -> str:
    """The text with everything that could steer a terminal or a page shown as an escape.

    Control characters, direction overrides and lone surrogates become visible; line breaks stay.
    """
    return "".join(char if _is_plain(char) else _escaped(char) for char in text)


def _is_plain(char: str) -> bool:
    return char in KEPT or unicodedata.category(char) not in ("Cc", "Cf", "Cs", "Co", "Cn")


def _escaped(char: str) -> str:
    number = ord(char)
    if number < 0x100:
        return f"\\x{number:02x}"
    return f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"


def one_line(text: str, limit: int = MAX_LINE) -> str:
    """Harmless text on one line of at most `limit` characters."""
    line = " ".join(harmless(text[: 2 * limit]).split())
    return line if len(line) <= limit else line[: limit - 1] + "…"


def excerpt(text: str, lines: int = MAX_LINES) -> list[str]:
    """The first lines of a harmless text, and how much was left out."""
    rows = text.splitlines()
    shown = [
        harmless(row[:MAX_LINE]) + ("…" if len(row) > MAX_LINE else "") for row in rows[:lines]
    ]
    if len(rows) > lines:
        shown.append(f"… {len(rows) - lines:,} more lines")
    return shown
