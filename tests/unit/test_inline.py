"""A picture in the terminal: which bytes are written, and that none are where none is shown."""

from __future__ import annotations

import fcntl
import io
import os
import pty
import re
import struct
import termios
import tty
from base64 import b64decode
from concurrent.futures import ThreadPoolExecutor

import pytest

from infralens.show.inline import Window, kitty, protocol_of, show_inline

PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + struct.pack(">2I", 960, 740) + bytes(range(256)) * 30
KITTY = {"TERM": "xterm-kitty", "KITTY_WINDOW_ID": "1"}
ITERM = {"TERM": "xterm-256color", "TERM_PROGRAM": "iTerm.app"}
LARGE, SMALL = Window(120, 40, 1080, 760), Window(80, 24, 720, 456)


def written(environment: dict[str, str], rows: int = 0, columns: int = 0) -> bytes:
    """What is written to a terminal of this size."""
    ours, theirs = pty.openpty()
    tty.setraw(theirs)
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("4H", rows, columns, 0, 0))
    with os.fdopen(theirs, "wb", buffering=0) as stream, ThreadPoolExecutor(1) as reader:
        read = reader.submit(read_until_a_line_ends, ours)
        show_inline(PNG, stream, environment)
        if protocol_of(environment) is None:
            stream.write(b"\n")
        data = read.result(timeout=30)
    os.close(ours)
    return data


def read_until_a_line_ends(terminal: int) -> bytes:
    data = b""
    while not data.endswith(b"\n"):
        data += os.read(terminal, 1 << 16)
    return data


def test_kitty_is_given_the_file_in_chunks_and_does_not_answer() -> None:
    codes = re.findall(rb"\x1b_G([^;]*);([^\x1b]*)\x1b\\", kitty(PNG, SMALL))
    assert b64decode(b"".join(data for _, data in codes)) == PNG
    assert [keys for keys, _ in codes] == [b"a=T,f=100,q=2,c=80,r=29,m=1", b"m=1", b"m=0"]
    assert max(len(data) for _, data in codes) == 4096
    assert kitty(PNG, LARGE).startswith(b"\x1b_Ga=T,f=100,q=2,m=1;")  # it fits as it is
    assert written(KITTY, 24, 80) == kitty(PNG, Window(80, 24, 0, 0)) + b"\n"


def test_iterm_is_given_the_file_whole() -> None:
    shown = written(ITERM, 24, 80)
    head, _, data = shown.partition(b":")
    size = len(PNG)
    assert head == b"\x1b]1337;File=inline=1;size=%d;width=80;preserveAspectRatio=1" % size
    assert data.endswith(b"\a\n")
    assert b64decode(data.removesuffix(b"\a\n")) == PNG
    assert b"width=auto" in written(ITERM)


@pytest.mark.parametrize(
    ("environment", "protocol"),
    [
        ({"TERM": "xterm-kitty"}, "kitty"),  # as ssh hands it on
        ({"TERM": "xterm-256color", "KITTY_WINDOW_ID": "3"}, "kitty"),
        ({"TERM": "xterm-ghostty", "TERM_PROGRAM": "ghostty"}, "kitty"),
        ({"TERM": "xterm-256color", "TERM_PROGRAM": "WezTerm"}, "iterm"),
        ({"TERM": "xterm-256color", "LC_TERMINAL": "iTerm2"}, "iterm"),
        ({"TERM": "xterm-256color", "TERM_PROGRAM": "vscode"}, None),
        ({"TERM": "xterm-256color"}, None),
        ({"TERM": "dumb", "KITTY_WINDOW_ID": "1"}, None),
        ({"TERM": "tmux-256color", "KITTY_WINDOW_ID": "1"}, None),
        ({"TERM": "xterm-kitty", "TMUX": "/tmp/tmux,1,0"}, None),
        ({"TERM": "screen", "LC_TERMINAL": "iTerm2"}, None),
        ({}, None),
    ],
)
def test_a_terminal_is_known_by_its_variables(
    environment: dict[str, str], protocol: str | None
) -> None:
    assert protocol_of(environment) == protocol


def test_nothing_is_written_to_what_is_no_terminal() -> None:
    file = io.BytesIO()
    show_inline(PNG, file, KITTY)
    assert file.getvalue() == b""
    assert written({"TERM": "xterm"}) == b"\n"
