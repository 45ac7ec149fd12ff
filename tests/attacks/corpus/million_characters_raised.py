"""A forged exception with a name, a text and lines of a million characters each, 2000 of them.

Kind: The channel
Relies on: limits that only the honest sender keeps
Breaks naive: points
"""

TEXT = "\x1b[2J\x00\u202e<script>" + "x" * 10**6
RAISED = {
    "t": "raised",
    "types": [TEXT, "ValueError"],
    "text": TEXT,
    "frames": [[2**62, TEXT, TEXT], *[[-1, "f", "x" * 100]] * 2000],
    "at_call": False,
}
_instead(lambda server: _frame({"kind": "answer", "call": server.call, "raised": RAISED}))
