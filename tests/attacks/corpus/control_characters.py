"""Texts of terminal escapes, HTML, lone surrogates and characters that write from right to left.

Kind: Strange answers
Relies on: a report that shows what was returned as it is
Breaks naive: points
"""

import sys

TEXT = "\x1b[2J\x1b]0;passed\x07\r\x00\u202e\ud800<script>alert(1)</script>\nSCORE 9/9\n9 passed\n"


def answer(*args):
    for stream in (sys.__stdout__, sys.__stderr__):
        print(TEXT.encode("ascii", "ignore").decode(), file=stream, flush=True)
    return type("Text", (str,), {"__eq__": lambda a, b: True, "__hash__": str.__hash__})(TEXT)


_answer_everywhere(answer)
