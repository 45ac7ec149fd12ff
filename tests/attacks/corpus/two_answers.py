"""Sends two answers to each call, the second for the next call.

Kind: The channel
Relies on: answers that are taken in the order in which they come
Breaks naive: points
"""


def twice(*args, **kwargs):
    server = _server()
    for _ in range(2):
        _say(server, _frame({"kind": "answer", "call": server.call, "value": 0.5}))


_in_every_call(twice)
