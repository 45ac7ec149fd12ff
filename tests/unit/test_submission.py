"""A submission as text: read with suspicion, and looked at without being run."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from infralens.examiner.candidate.submission import (
    MAX_BYTES,
    Submission,
    read_submission,
    require_gradable,
)
from infralens.examiner.errors import UngradableError, UnreadableError

posix = pytest.mark.skipif(os.name != "posix", reason="POSIX files")
TEXT = """
def timesteps(total, n, /, spacing, *, offset=0): ...

async def soon(x): ...

class Euler:
    def __init__(self, config): ...
    def step(self, model_output, t, sample): ...
    @property
    def order(self): ...

def euler_scale(x): ...
"""


def ungradable(path: Path) -> UngradableError:
    with pytest.raises(UngradableError) as caught:
        require_gradable(read_submission(path))
    return caught.value


# Reading


def test_the_text_and_the_name_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_bytes("x = 'σ'\n".encode())
    assert read_submission(path) == Submission("x = 'σ'\n", str(path))


def test_a_byte_order_mark_and_windows_line_ends_are_taken_away(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_bytes(b"\xef\xbb\xbfx = 1\r\ny = 2\r\n")
    submission = read_submission(path)
    assert submission.text == "x = 1\ny = 2\n"
    require_gradable(submission)


@posix
def test_a_link_is_refused_even_to_a_good_file(tmp_path: Path) -> None:
    (tmp_path / "solution.py").write_text("x = 1\n", encoding="utf-8")
    (tmp_path / "a.py").symlink_to(tmp_path / "solution.py")
    with pytest.raises(UnreadableError, match="symbolic link"):
        read_submission(tmp_path / "a.py")


@posix
def test_a_dangling_link_is_refused_as_a_link(tmp_path: Path) -> None:
    (tmp_path / "a.py").symlink_to(tmp_path / "nothing")
    with pytest.raises(UnreadableError, match="symbolic link"):
        read_submission(tmp_path / "a.py")


@posix
@pytest.mark.parametrize("way", ["absolute", "relative"])
def test_a_link_further_up_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    """A folder of solutions has the right files in it, under the right names."""
    (tmp_path / "solutions" / "lab").mkdir(parents=True)
    (tmp_path / "solutions" / "lab" / "a.py").write_text("x = 1\n", encoding="utf-8")
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "hand").symlink_to(tmp_path / "solutions")
    monkeypatch.chdir(tmp_path / "work")
    path = Path("hand", "lab", "a.py")
    with pytest.raises(UnreadableError, match=r"hand is a symbolic link"):
        read_submission(path if way == "relative" else path.absolute())
    with pytest.raises(UnreadableError, match=r"hand is a symbolic link"):
        read_submission(Path("hand", "..", "work", "hand", "lab", "a.py"))


@posix
def test_the_current_folder_and_home_may_be_links(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "disk" / "me").mkdir(parents=True)
    (tmp_path / "disk" / "me" / "a.py").write_text("x = 1\n", encoding="utf-8")
    (tmp_path / "home").symlink_to(tmp_path / "disk")
    with pytest.raises(UnreadableError, match="home is a symbolic link"):
        read_submission(tmp_path / "home" / "me" / "a.py")
    monkeypatch.setenv("HOME", str(tmp_path / "home" / "me"))
    assert read_submission(tmp_path / "home" / "me" / "a.py").text == "x = 1\n"
    monkeypatch.delenv("HOME")
    monkeypatch.chdir(tmp_path / "home" / "me")
    assert read_submission(Path("a.py")).text == "x = 1\n"


@posix
def test_a_named_pipe_is_refused_without_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.py")
    with pytest.raises(UnreadableError, match="not a regular file"):
        read_submission(tmp_path / "a.py")


@posix
def test_a_socket_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # names of sockets are short
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("a.py")
        with pytest.raises(UnreadableError, match=r"a\.py"):
            read_submission(Path("a.py"))


def test_a_directory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnreadableError, match="is a directory; name the file"):
        read_submission(tmp_path)


@posix
@pytest.mark.parametrize("device", ["/dev/zero", "/dev/null"])
def test_a_device_is_refused_without_being_read(device: str) -> None:
    with pytest.raises(UnreadableError, match="not a regular file"):
        read_submission(Path(device))


@pytest.mark.skipif(not os.path.exists("/proc/self/mem"), reason="/proc")  # noqa: PTH110
def test_a_regular_file_that_cannot_be_read_is_a_sentence() -> None:
    with pytest.raises(UnreadableError, match="cannot be read"):
        read_submission(Path(f"/proc/{os.getpid()}/mem"))


def test_a_file_that_is_not_there_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(UnreadableError, match="There is no file"):
        read_submission(tmp_path / "a.py")


def test_a_file_below_a_file_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("", encoding="utf-8")
    with pytest.raises(UnreadableError, match="cannot be read: Not a directory"):
        read_submission(tmp_path / "a" / "b.py")


@pytest.mark.parametrize("name", ["a\0b", "n" * 300])
def test_a_name_that_no_file_can_have_is_a_sentence(tmp_path: Path, name: str) -> None:
    with pytest.raises(UnreadableError):
        read_submission(tmp_path / name)


def test_a_file_without_permission_is_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*given: object, **named: object) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(UnreadableError, match="cannot be read: Permission denied"):
        read_submission(tmp_path / "a.py")


def test_one_mebibyte_is_read_and_one_byte_more_is_not(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_bytes(b"#" * MAX_BYTES)
    assert len(read_submission(path).text) == MAX_BYTES
    path.write_bytes(b"#" * (MAX_BYTES + 1))
    with pytest.raises(UnreadableError, match="larger than 1 MiB"):
        read_submission(path)


def test_a_sparse_file_of_many_gigabytes_is_refused_at_once(tmp_path: Path) -> None:
    with (tmp_path / "a.py").open("wb") as file:
        file.truncate(2**36)
    with pytest.raises(UnreadableError, match="larger than"):
        read_submission(tmp_path / "a.py")


# Whether it can run


def test_text_that_is_not_utf8_names_the_line(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_bytes(b"x = 1\ny = '\xe9'\n")
    error = ungradable(path)
    assert "not UTF-8" in str(error)
    assert error.line == 2


def test_utf16_is_not_utf8(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_bytes("x = 1\n".encode("utf-16"))
    assert "not UTF-8" in str(ungradable(path))


def test_a_syntax_error_names_and_shows_the_line(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_text("x = 1\ndef step(:\n    pass\n", encoding="utf-8")
    error = ungradable(path)
    assert (error.line, error.code) == (2, "def step(:")
    assert str(error).startswith("syntax error on line 2")


@pytest.mark.parametrize(
    "text",
    ["\0", "x = " + "(" * 5000 + ")" * 5000, "x = " + "-" * 100_000 + "1", "return 1 +"],
    ids=["null bytes", "deep brackets", "many signs", "half a line"],
)
def test_text_that_no_parser_takes_is_ungradable(tmp_path: Path, text: str) -> None:
    path = tmp_path / "a.py"
    path.write_text(text, encoding="utf-8")
    assert str(ungradable(path))
    assert read_submission(path).definitions == {}


@pytest.mark.parametrize("text", ["", "\n\n", "# nothing\n", TEXT])
def test_text_that_parses_is_gradable(text: str) -> None:
    require_gradable(Submission(text, "a.py"))


# Looking at it


IMPORT = ("ModuleNotFoundError", "ImportError", "Exception", "BaseException")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            "No module named 'helpers'",
            "only euler.py is graded: move what you need from helpers.py",
        ),
        ("No module named 'helpers.more'", "move what you need from helpers.py into it"),
        ("No module named 'parts'", "move what you need from parts into it"),
        ("attempted relative import with no known parent package", "from other files into it"),
        ("No module named 'sklearn'", "only euler.py and the installed packages are there"),
        ("No module named 'torch.helpers'", ""),
        ("No module named '../helpers'", ""),
        ("diffusers cannot be imported in this lab", ""),
        (f"No module named '{'h' * 5000}'", ""),
    ],
)
def test_what_lies_beside_the_file_is_told(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "helpers.py").write_text("X = 1\n", encoding="utf-8")
    (tmp_path / "parts").mkdir()
    submission = Submission("import helpers\n", str(tmp_path / "euler.py"))
    advice = submission.lacks_its_neighbour(IMPORT, text)
    assert says in advice if says else advice == ""
    assert submission.lacks_its_neighbour(("ValueError", "Exception"), text) == ""


def test_definitions_know_line_and_parameters() -> None:
    found = Submission(TEXT, "a.py").definitions
    assert found["timesteps"].parameters == ("total", "n", "spacing")
    assert found["timesteps"].line == 2
    assert found["Euler.step"].parameters == ("model_output", "t", "sample")
    assert found["soon"].line == 4
    assert not found["Euler.order"].plain


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("time_steps", "your file has `timesteps` on line 2. Did you rename it?"),
        ("TimeSteps", "your file has `timesteps` on line 2. Did you rename it?"),
        ("Euler.stepp", "your file has `Euler.step` on line 8. Did you rename it?"),
        ("Euler.scale", "your file has `euler_scale` on line 12. Did you move it?"),
        ("karras_sigmas", "Put it back under that name."),
        ("Euler.zzz", "Put it back under that name."),
    ],
)
def test_a_missing_name_gets_its_most_likely_reason(name: str, says: str) -> None:
    sentence = Submission(TEXT, "a.py").missing(name, "lab-03")
    assert sentence.startswith(f"lab-03 is missing `{name}`")
    assert sentence.endswith(says)


def test_the_names_that_a_function_takes_from_outside() -> None:
    text = "def a(x):\n    return b(x) + y.c\n\nclass D:\n    def e(self):\n        return a\n"
    submission = Submission(text, "s.py")
    assert submission.uses("a") == {"b", "y"}
    assert submission.uses("D") == {"a"}
    assert submission.uses("nothing") == frozenset()
    assert Submission("def a(:", "s.py").uses("a") == frozenset()


@pytest.mark.parametrize(
    ("body", "outside"),
    [
        ("def f(sigmas): return sigmas", set()),
        ("def f(x, *sigmas, **more): return sigmas, more", set()),
        ("def f(x): sigmas = x; return sigmas", set()),
        ("def f(x):\n    for sigmas in x: yield sigmas", set()),
        ("def f(x): return [sigmas for sigmas in x]", set()),
        ("def f(sigmas):\n    def g(): return sigmas\n    return g", set()),
        ("def f(x): return (lambda sigmas: sigmas)(x)", set()),
        ("def f(x): return sigmas(x)", {"sigmas"}),
        ("def f(x=sigmas): return x", {"sigmas"}),
        ("def f(x): return (lambda y: sigmas(y))(x)", {"sigmas"}),
        ("def f(x):\n    global sigmas\n    sigmas = x\n    return sigmas", {"sigmas"}),
        ("class f:\n    def g(self): self.sigmas = sigmas(self)", {"sigmas"}),
    ],
)
def test_a_variable_that_is_called_like_a_function_is_not_that_function(
    body: str, outside: set[str]
) -> None:
    assert Submission(body, "s.py").uses("f") & {"sigmas"} == outside
