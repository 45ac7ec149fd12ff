"""`python -m infralens.examiner.nameless`: an examiner that looks for no mistake's name.

For asking of many wrong answers whether they are paid, and nothing else.
"""

from __future__ import annotations


def main() -> None:
    """Serve as the examiner does, with no time for names."""
    from infralens.examiner import naming, serving

    naming.NAMING_SECONDS = -1.0  # less than nothing spent
    serving.main()


if __name__ == "__main__":
    main()
