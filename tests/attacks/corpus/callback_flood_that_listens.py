"""Asks for callbacks without end and takes every answer, so that only time can stop it.

Kind: The channel
Relies on: a time limit that is looked at only while nothing comes
Breaks naive: points
"""

from infralens.wire import read_frame


def flood(*args, **kwargs):
    server = _server()
    question = {"kind": "callback", "call": server.call, "n": 1}
    question |= {"args": {"t": "tuple", "v": []}, "kwargs": {"t": "dict", "k": [], "v": []}}
    frame = _frame(question)
    end = _time.monotonic() + 60
    while _time.monotonic() < end:
        _say(server, frame)
        read_frame(server.requests)


_in_every_call(flood)
