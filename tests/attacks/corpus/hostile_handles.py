"""Handles on objects that are not there, with control characters and "function" for a type.

Kind: The channel
Relies on: a number or a type name that is believed
Breaks naive: points
"""

TYPES = ["method", "function", "\x1b[2J\x00" * 100, "Euler", "x" * 10**6, ""]
sent = []


def handle(server):
    sent.append(0)
    value = {"t": "handle", "n": (-1) ** len(sent) * 2**60, "type": TYPES[len(sent) % len(TYPES)]}
    return _frame({"kind": "answer", "call": server.call, "value": value})


_instead(handle)
