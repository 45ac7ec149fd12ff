"""Asks for callbacks without end instead of answering: each is answered, and none is the answer.

Kind: The channel
Relies on: a time limit that is looked at only while nothing comes
Breaks naive: points
"""

import fcntl


def flood(*args, **kwargs):
    server = _server()
    question = {"kind": "callback", "call": server.call, "n": 1}
    question |= {"args": {"t": "tuple", "v": []}, "kwargs": {"t": "dict", "k": [], "v": []}}
    fcntl.fcntl(server.answers.fileno(), 1031, 2**20)  # F_SETPIPE_SZ: there is always one more
    frames = _frame(question) * 20_000
    end = _time.monotonic() + 60
    while _time.monotonic() < end:
        _say(server, frames)


_in_every_call(flood)
