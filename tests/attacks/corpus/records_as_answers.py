"""Callbacks, lent objects, namespaces and exceptions where a value belongs.

Kind: The channel
Relies on: records that mean something on the other side
Breaks naive: points
"""

RECORDS = [
    {"t": "callback", "n": 1, "name": "print"},
    {"t": "remote", "n": 1, "type": "os", "attributes": ["system"], "methods": ["system"]},
    {"t": "namespace", "k": ["__class__", "shape"], "v": [1, 2]},
    {"t": "raised", "types": [], "text": "", "frames": [], "at_call": True},
    {"t": "dtype", "v": "__class__"},
    {"t": ["tensor"], "i": {}},
    {"t": "tensor", "i": "1", "d": "cpu"},
    {"t": "dict", "k": ["a", "a"], "v": [1, 2]},
    {"v": 1},
]
sent = []


def record(server):
    sent.append(0)
    value = RECORDS[len(sent) % len(RECORDS)]
    return _frame({"kind": "answer", "call": server.call, "value": value})


_instead(record)
