"""Sends a second answer a moment later, while the next call runs.

Kind: The channel
Relies on: answers that do not say what they answer
Breaks naive: points
"""

import threading


def twice(*args, **kwargs):
    server = _server()
    late = _frame({"kind": "answer", "call": server.call, "value": 0.5})
    for wait in (0.001, 0.005, 0.02, 0.1):
        threading.Timer(wait, _say, (server, late)).start()
    return 0.5


_in_every_call(twice)
