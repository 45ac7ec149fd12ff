"""Jumps into bytes that are no instructions.

Kind: Crashing
Relies on: a grader in the same process
Breaks naive: crash
"""

import ctypes
import mmap

memory = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
memory.write(b"\x0f\x0b" * 16)
place = ctypes.addressof(ctypes.c_char.from_buffer(memory))
_in_every_call(lambda *args, **kwargs: ctypes.CFUNCTYPE(None)(place)())
