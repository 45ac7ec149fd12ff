"""An examiner that looks for a mistake's name for a moment only.

For the hundreds of wrong answers that no misconception gives: that names are found is proven where
the labs are.
"""

from __future__ import annotations

from infralens.examiner import naming, serving

MOMENT = 0.5

if __name__ == "__main__":
    naming.NAMING_SECONDS = MOMENT
    serving.main()
