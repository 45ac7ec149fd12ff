"""Leaves a message in the session's keyring for a later submission, and waits for its answer.

Kind: Remembering
Relies on: a keyring that outlives the process
Breaks naive: hang
Level: sandbox
"""

import ctypes
import platform
import time

ADD_KEY = {"x86_64": 248, "aarch64": 217}[platform.machine()]
SESSION_KEYRING = -3
libc = ctypes.CDLL(None)
if libc.syscall(ADD_KEY, b"user", b"infralens-attack", b"the answer", 10, SESSION_KEYRING) >= 0:
    time.sleep(60)
