"""A picture in the terminal: which bytes are written, and that none are where none is shown."""

from __future__ import annotations

import io
import re
from base64 import b64decode

import pytest

from infralens.show.inline import kitty, protocol_of, show_inline

PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 30
KITTY = {"TERM": "xterm-kitty", "KITTY_WINDOW_ID": "1"}


class Terminal(io.BytesIO):
    def __init__(self, tty: bool = True) -> None:
        super().__init__()
        self.tty = tty

    def isatty(self) -> bool:
        return self.tty


def written(environment: dict[str, str], columns: int = 80, tty: bool = True) -> bytes:
    stream = Terminal(tty)
    show_inline(PNG, stream, environment, columns)
    return stream.getvalue()


def test_kitty_is_given_the_file_in_chunks_and_does_not_answer() -> None:
    codes = re.findall(rb"\x1b_G([^;]*);([^\x1b]*)\x1b\\", kitty(PNG, 79))
    assert b64decode(b"".join(data for _, data in codes)) == PNG
    assert [keys for keys, _ in codes] == [b"a=T,f=100,q=2,c=79,m=1", b"m=1", b"m=0"]
    assert max(len(data) for _, data in codes) == 4096
    assert len(codes[0][1]) % 4 == 0
    assert kitty(b"PNG", 5) == b"\x1b_Ga=T,f=100,q=2,c=5,m=0;UE5H\x1b\\"
    assert written(KITTY) == kitty(PNG, 79) + b"\n"
    assert written(KITTY, columns=500) == kitty(PNG, 120) + b"\n"


def test_iterm_is_given_the_file_whole() -> None:
    shown = written({"TERM": "xterm-256color", "TERM_PROGRAM": "iTerm.app"})
    head, _, data = shown.partition(b":")
    size = len(PNG)
    assert head == b"\x1b]1337;File=inline=1;size=%d;width=79;preserveAspectRatio=1" % size
    assert data.endswith(b"\a\n")
    assert b64decode(data.removesuffix(b"\a\n")) == PNG


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
    assert written(KITTY, tty=False) == b""
    assert written({"TERM": "xterm"}) == b""
