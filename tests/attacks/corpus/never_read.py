"""Never reads what it is sent, and asks for more.

Kind: The channel
Relies on: a writer that waits for the reader
Breaks naive: hang
"""


def ask(*args, **kwargs):
    server = _server()
    while True:
        _say(server, _frame({"kind": "use", "call": server.call, "n": 1, "name": "x" * 10_000}))
        _time.sleep(0.0005)


if "naive" in _sys.argv[0]:
    _time.sleep(600)
_in_every_call(ask)
