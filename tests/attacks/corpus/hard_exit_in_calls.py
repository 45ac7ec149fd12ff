"""Ends the process with exit code 0 in the first call.

Kind: Ending the session
Relies on: checks that share the process with the submission
Breaks naive: points
"""

import os

_in_every_call(lambda *args, **kwargs: os._exit(0))
