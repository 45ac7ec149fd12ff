"""Answers with a verdict: passed, full marks, no error.

Kind: The channel
Relies on: a channel that carries verdicts
Breaks naive: points
"""

FORGED = {"status": "passed", "passed": True, "score": 16, "event": "result", "points": 16}
_instead(lambda server: _frame({"kind": "answer", "call": server.call, "value": None, **FORGED}))
