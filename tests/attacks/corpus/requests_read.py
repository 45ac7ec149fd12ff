"""Reads what the examiner sends: the seed, the expected values and the verdict should be in it.

Kind: The channel
Relies on: a request that holds more than the question
Breaks naive: points
"""

import sys

server = _server()


def steal(*args):
    frame = sys._getframe()
    while frame is not None:
        request = frame.f_locals.get("request")
        if isinstance(request, dict):
            for name in ("expected", "reference", "seed", "truth", "tolerance", "answer"):
                if name in request:
                    return request[name]
        frame = frame.f_back
    return None


_answer_everywhere(steal)
