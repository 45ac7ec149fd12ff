"""Raises from frames with invented file names and a million lines.

Kind: Crashing
Relies on: a grader that shows the lines of a traceback
Breaks naive: crash
"""


def leave(*args, **kwargs):
    source = (
        "\n" * 2_000_000
        + "def f(n):\n    if n: f(n - 1)\n    raise BaseException('\\x1b[2J' * 10**6)\n"
    )
    scope = {}
    exec(compile(source, "/etc/passwd", "exec"), scope)
    scope["f"](300)


_in_every_call(leave)
