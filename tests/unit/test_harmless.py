"""Text from a submission, made harmless to show."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infralens.show.harmless import MAX_LINE, excerpt, harmless, one_line


@pytest.mark.parametrize(
    ("char", "shown"),
    [
        ("\x1b", "\\x1b"),
        ("\x00", "\\x00"),
        ("\x07", "\\x07"),
        ("\r", "\\x0d"),
        ("\x08", "\\x08"),
        ("\x7f", "\\x7f"),
        ("\x9b", "\\x9b"),
        ("\u202e", "\\u202e"),
        ("\u2066", "\\u2066"),
        ("\u200b", "\\u200b"),
        ("\ufeff", "\\ufeff"),
        ("\ud800", "\\ud800"),
        ("\uffff", "\\uffff"),
        ("\U000e0001", "\\U000e0001"),
    ],
    ids=ascii,
)
def test_what_could_steer_a_terminal_becomes_visible(char: str, shown: str) -> None:
    assert harmless(f"a{char}b") == f"a{shown}b"


@pytest.mark.parametrize("text", ["σ √ᾱ ✔ …", "one\n\ttwo", "日本語 ß é", ""])
def test_ordinary_text_stays(text: str) -> None:
    assert harmless(text) == text


@given(st.text(st.characters(), max_size=50))
def test_nothing_that_steers_is_left(text: str) -> None:
    shown = harmless(text)
    assert all(unicodedata.category(c) not in ("Cf", "Cs", "Cn", "Co") for c in shown)
    assert not {c for c in shown if unicodedata.category(c) == "Cc"} - {"\n", "\t"}
    shown.encode("utf-8")


def test_one_line_is_one_line_and_bounded() -> None:
    assert one_line("a\n  b\t\tc\r\n") == "a b c\\x0d"
    assert one_line("x" * 10_000, 50) == "x" * 49 + "…"
    assert len(one_line("\x1b" * 10_000)) == MAX_LINE


def test_an_excerpt_is_bounded_in_both_directions() -> None:
    shown = excerpt("\n".join(["y" * 1000] * 2000), 3)
    assert len(shown) == 4
    assert shown[0] == "y" * MAX_LINE + "…"
    assert shown[3] == "… 1,997 more lines"


def test_a_short_excerpt_is_whole() -> None:
    assert excerpt("a\nb\x1b", 3) == ["a", "b\\x1b"]
