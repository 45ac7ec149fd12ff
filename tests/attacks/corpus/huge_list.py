"""A list of a hundred million numbers, and one that is as long as it is looked at.

Kind: Strange answers
Relies on: an answer that is walked through before its size is looked at
Breaks naive: hang
"""


class Endless(list):
    def __len__(self):
        return 10**9

    def __iter__(self):
        while True:
            yield 0.0

    def __getitem__(self, index):
        return 0.0

    def __eq__(self, other):
        return all(a == 0.0 for a in self)


_answer_everywhere(lambda *args: Endless([0.0]) if len(args) % 2 else [0.0] * 10**8)
