"""A list nested a hundred thousand deep.

Kind: Strange answers
Relies on: a comparison, a repr or a writer that recurses
Breaks naive: crash
"""

import sys


def deep(*args):
    sys.setrecursionlimit(10**9)
    answer = []
    for _ in range(1_000_000):
        answer = [answer]
    return answer


_answer_everywhere(deep)
