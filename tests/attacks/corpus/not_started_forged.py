"""Raises NotImplementedError("TODO") in the middle: not started, not failed, nothing to see.

Kind: The channel
Relies on: "not started" being something else than failed
Breaks naive: points
"""

RAISED = {
    "t": "raised",
    "types": ["NotImplementedError"],
    "text": "TODO \x1b[2J",
    "frames": [],
    "at_call": True,
}
_instead(lambda server: _frame({"kind": "answer", "call": server.call, "raised": RAISED}))
