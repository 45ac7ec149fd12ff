"""A PNG in the terminal itself, where that can show pictures: kitty's protocol, and iTerm2's.

kitty: https://sw.kovidgoyal.net/kitty/graphics-protocol/, iTerm2: https://iterm2.com/documentation-images.html
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from typing import BinaryIO, Literal

Protocol = Literal["kitty", "iterm"]
CHUNK = 4096  # bytes of base64 that kitty takes at once
WIDEST = 120  # columns: beyond that a picture is larger than it was drawn
MULTIPLEXERS = ("screen", "tmux")
"""They pass no picture on by themselves, and hand down the variables of the terminal outside."""


def protocol_of(environment: Mapping[str, str]) -> Protocol | None:
    """How this terminal shows pictures, by its variables; None where nothing says that it does."""
    term, program = environment.get("TERM", ""), environment.get("TERM_PROGRAM", "")
    if "TMUX" in environment or term.startswith(MULTIPLEXERS) or term in ("", "dumb"):
        return None
    if program in ("iTerm.app", "WezTerm") or environment.get("LC_TERMINAL") == "iTerm2":
        return "iterm"
    if term in ("xterm-kitty", "xterm-ghostty") or program == "ghostty":
        return "kitty"
    return "kitty" if "KITTY_WINDOW_ID" in environment else None


def kitty(png: bytes, columns: int) -> bytes:
    """The escape codes that have kitty show it, so many columns wide, without an answer."""
    text = b64encode(png)
    parts = [text[start : start + CHUNK] for start in range(0, len(text), CHUNK)]
    keys = [b"a=T,f=100,q=2,c=%d," % columns, *[b""] * (len(parts) - 1)]
    more = [b"1"] * (len(parts) - 1) + [b"0"]
    told = zip(keys, more, parts, strict=True)
    return b"".join(b"\x1b_G%sm=%s;%s\x1b\\" % each for each in told)


def iterm(png: bytes, columns: int) -> bytes:
    """The escape code that has iTerm2 show it, so many columns wide."""
    how = b"inline=1;size=%d;width=%d;preserveAspectRatio=1" % (len(png), columns)
    return b"\x1b]1337;File=%s:%s\a" % (how, b64encode(png))


def show_inline(png: bytes, stream: BinaryIO, environment: Mapping[str, str], columns: int) -> None:
    """Show the picture in the terminal behind `stream`; nothing where none or a plain one is."""
    protocol = protocol_of(environment) if stream.isatty() else None
    if protocol is None:
        return
    width = min(max(columns - 1, 1), WIDEST)
    shown = kitty(png, width) if protocol == "kitty" else iterm(png, width)
    stream.write(shown + b"\n")
    stream.flush()
