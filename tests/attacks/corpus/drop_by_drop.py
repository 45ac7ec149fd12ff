"""Sends one byte of an answer every tenth of a second.

Kind: The channel
Relies on: a time limit that begins anew with every byte
Breaks naive: hang
"""


def drip(*args, **kwargs):
    server = _server()
    for byte in _frame({"kind": "answer", "call": server.call, "value": "x" * 10_000}):
        _say(server, bytes([byte]))
        _time.sleep(0.1)


if "naive" in _sys.argv[0]:
    _time.sleep(600)
_in_every_call(drip)
