"""Sets a profile function that turns every report into a pass on its way back to pytest.

Kind: Reaching the verdict
Relies on: reports made in the same process, and sys.setprofile
Breaks naive: points
"""

import sys


def _spy(frame, event, result):
    if event == "return" and type(result).__name__ == "TestReport":
        result.outcome = "passed"
        result.longrepr = None


_in_every_call(lambda *args, **kwargs: sys.setprofile(_spy))
