"""Answers before it is asked, with names of calls that it guesses.

Kind: The channel
Relies on: numbers that can be guessed
Breaks naive: points
"""

server = _server()
for name in (None, 0, 1, "1", "", "0" * 32, True, [1]):
    _say(server, _frame({"kind": "answer", "call": name, "value": None}))
