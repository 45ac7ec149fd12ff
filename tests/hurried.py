"""An examiner that looks for a mistake's name for a moment only.

For the hundreds of wrong answers that no misconception gives, and where the limits of a submission
are measured: that names are found is proven where the labs are.
"""

from __future__ import annotations

from infralens.examiner import serving

MOMENT = 0.5
prepare = serving._prepare


def prepare_and_hurry() -> None:
    """As the examiner does at its first request; not before, since names need torch."""
    prepare()
    from infralens.examiner import naming

    naming.NAMING_SECONDS = MOMENT


if __name__ == "__main__":
    serving._prepare = prepare_and_hurry
    serving.main()
