"""A PNG in the terminal itself, where that can show pictures: kitty's protocol, and iTerm2's.

kitty: https://sw.kovidgoyal.net/kitty/graphics-protocol/, iTerm2: https://iterm2.com/documentation-images.html
"""

from __future__ import annotations

import struct
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from typing import BinaryIO, Literal

Protocol = Literal["kitty", "iterm"]
CHUNK = 4096  # bytes of base64 that kitty takes at once
WIDEST = 120  # columns: beyond that a picture is larger than it was drawn


@dataclass(frozen=True)
class Window:
    """A terminal in cells and in pixels; 0 for what is not known."""

    columns: int
    rows: int
    width: int
    height: int


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


def kitty(png: bytes, window: Window) -> bytes:
    """The escape codes that have kitty show it, no wider than the window, without an answer."""
    text = b64encode(png)
    parts = [text[start : start + CHUNK] for start in range(0, len(text), CHUNK)]
    keys = [b"a=T,f=100,q=2,%s" % _fitted(png, window), *[b""] * (len(parts) - 1)]
    more = [b"1"] * (len(parts) - 1) + [b"0"]
    told = zip(keys, more, parts, strict=True)
    return b"".join(b"\x1b_G%sm=%s;%s\x1b\\" % each for each in told)


def _fitted(png: bytes, window: Window) -> bytes:
    """How many columns and rows a picture has to fill, if it is wider than the window.

    Both, since kitty before 0.27 takes one alone for a stretch.
    """
    width, height = struct.unpack(">2I", png[16:24])
    if not 0 < window.width < width or not (window.columns and window.rows and window.height):
        return b""
    rows = height * window.width / width / (window.height / window.rows)
    return b"c=%d,r=%d," % (window.columns, max(round(rows), 1))


def iterm(png: bytes, columns: int) -> bytes:
    """The escape code that has iTerm2 show it, no wider than so many columns, if that is known."""
    width = b"%d" % min(columns, WIDEST) if columns else b"auto"
    how = b"inline=1;size=%d;width=%s;preserveAspectRatio=1" % (len(png), width)
    return b"\x1b]1337;File=%s:%s\a" % (how, b64encode(png))


def show_inline(png: bytes, stream: BinaryIO, environment: Mapping[str, str]) -> None:
    """Show the picture in the terminal behind `stream`; nothing where none or a plain one is."""
    protocol = protocol_of(environment) if stream.isatty() else None
    if protocol is None:
        return
    window = window_of(stream)
    shown = kitty(png, window) if protocol == "kitty" else iterm(png, window.columns)
    stream.write(shown + b"\n")
    stream.flush()


def window_of(stream: BinaryIO) -> Window:
    """The size of the terminal; zeros for what it does not tell."""
    try:
        from fcntl import ioctl
        from termios import TIOCGWINSZ

        rows, columns, width, height = struct.unpack("4H", ioctl(stream, TIOCGWINSZ, bytes(8)))
    except (ImportError, OSError):
        return Window(0, 0, 0, 0)
    return Window(columns, rows, width, height)
