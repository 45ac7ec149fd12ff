"""Asks the kernel for what a lab never needs: rings that no filter sees, maps, tracing, mounts.

Kind: Stealing the answer
Relies on: system calls that nobody refuses
Breaks naive: hang
Level: sandbox
"""

import ctypes
import os
import platform
import time

CALLS = {  # io_uring_setup, userfaultfd, bpf, perf_event_open, unshare, memfd_create
    "x86_64": ((425, 1), (323, 1), (321, 0), (298, 0), (272, 0), (319, b"kept")),
    "aarch64": ((425, 1), (282, 1), (280, 0), (241, 0), (97, 0), (279, b"kept")),
}[platform.machine()]
libc = ctypes.CDLL(None, use_errno=True)
room = ctypes.create_string_buffer(4096)
answers = []
for number, first in CALLS:
    answers.append((libc.syscall(number, first, room, 0, 0, 0), ctypes.get_errno()))
if any(answer != -1 or error != 1 for answer, error in answers):  # 1: EPERM
    time.sleep(60)
os._exit(0)
