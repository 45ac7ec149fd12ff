"""Replaces the candidate's own functions: every request is answered from a table of its own.

Kind: The channel
Relies on: the examiner's code, running in the candidate, being believed
Breaks naive: points
"""

server = _server()
from infralens.candidate import serving

for kind in list(serving.ANSWERS):
    serving.ANSWERS[kind] = lambda server, request: {"passed": True, "score": 16}
