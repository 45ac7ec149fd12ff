"""Imports the grader's own modules in the candidate and changes its limits and records there.

Kind: The channel
Relies on: state that both ends share
Breaks naive: points
"""

server = _server()
from infralens import report, wire

wire.MAX_BODY = wire.MAX_HEADER = wire.MAX_NODES = wire.MAX_TEXT = 2**60
wire.MAX_DEPTH = 900
report.CheckResult.status = "passed"


def deep(*args):
    answer = [1.0] * 400_000
    for _ in range(300):
        answer = [answer]
    return answer


_answer_everywhere(deep)
