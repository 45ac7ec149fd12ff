"""Says that the answer cannot be sent, in a million characters.

Kind: The channel
Relies on: a sentence of the peer's that is shown as it is
Breaks naive: points
"""

TEXT = "\x1b[2J\x00\ud800" + "x" * 10**6
_instead(lambda server: _frame({"kind": "answer", "call": server.call, "unsendable": TEXT}))
