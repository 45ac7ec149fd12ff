"""Sends half of an answer and ends.

Kind: The channel
Relies on: a reader that takes what there is
Breaks naive: points
"""


def half(*args, **kwargs):
    server = _server()
    whole = _frame({"kind": "answer", "call": server.call, "value": 0.5})
    _say(server, whole[: len(whole) // 2])
    _os._exit(0)


_in_every_call(half)
