"""Sends half of an answer and stays.

Kind: The channel
Relies on: a reader that waits for the rest without a limit
Breaks naive: hang
"""


def half(*args, **kwargs):
    server = _server()
    whole = _frame({"kind": "answer", "call": server.call, "value": 0.5})
    _say(server, whole[:-3])
    _time.sleep(600)


if "naive" in _sys.argv[0]:
    _time.sleep(600)
_in_every_call(half)
