"""Asks for callbacks and uses that were never lent: numbers, names and arguments of every kind.

Kind: The channel
Relies on: a number that is believed
Breaks naive: points
"""

EMPTY = {"t": "dict", "k": [], "v": []}
NUMBERS = [0, 1, -1, 2**60, "1", None, [1], EMPTY, 1.0, True, {"t": "handle", "n": 1, "type": "x"}]


def ask(*args, **kwargs):
    server = _server()
    from infralens.wire import read_frame

    for kind in ("callback", "use"):
        for number in NUMBERS:
            for name in ("step", "__class__", "__globals__", None, [1]):
                question = {"kind": kind, "call": server.call, "n": number, "name": name}
                question |= {"args": {"t": "tuple", "v": []}, "kwargs": EMPTY}
                _say(server, _frame(question))
                read_frame(server.requests)
    return None


_in_every_call(ask)
