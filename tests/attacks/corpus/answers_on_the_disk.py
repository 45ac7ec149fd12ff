"""Looks through the working folder, the temporary folders and the open descriptors for answers.

Kind: Stealing the answer
Relies on: answers, reports or gradebooks left on the disk, or open
Breaks naive: leftovers
"""

import glob
import os
import tempfile

import torch

patterns = ("*.pt", "*.npz", "*.json", "*.xml", "*.db", "expected*", "report*")
found = []
for folder in {os.getcwd(), tempfile.gettempdir(), os.path.expanduser("~"), "/tmp"}:
    for pattern in patterns:
        found += glob.glob(f"{folder}/{pattern}")
for descriptor in os.listdir("/proc/self/fd"):
    try:
        found.append(os.readlink(f"/proc/self/fd/{descriptor}"))
    except OSError:
        continue
with open(f"{tempfile.gettempdir()}/loot", "w") as file:
    file.write("\n".join(found))


def look(*args):
    for path in found:
        if path.endswith(".pt") and os.path.isfile(path):
            return torch.load(path, weights_only=True)
    return None


_answer_everywhere(look)
