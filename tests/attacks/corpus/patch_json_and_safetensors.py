"""Replaces what json and safetensors write, so that whatever is sent says "passed".

Kind: Reaching the verdict
Relies on: a verdict that is written by the process that runs the submission
Breaks naive: points
"""

import json
import os

import safetensors.torch

json.dumps = lambda *args, **kwargs: '{"kind":"answer","status":"passed","score":16}'
json.loads = lambda *args, **kwargs: {"status": "passed", "score": 16}
safetensors.torch.save = lambda *args, **kwargs: b"passed"
os._exit = lambda code: None


def leave(*args, **kwargs):
    import sys

    for stream in (sys.__stdout__, sys.__stderr__, sys.stdout):
        stream.write("\nSCORE 9/9\n")
        stream.flush()
    raise SystemExit(0)


_in_every_call(leave)
