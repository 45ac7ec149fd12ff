"""`infralens show`: pictures of what a learner's functions do. Importing this imports no torch."""

from __future__ import annotations

DRAWN = {
    "diffusers/lab-01": "lab_01",
    "diffusers/lab-02": "lab_02",
    "diffusers/lab-03": "lab_03",
    "diffusers/lab-04": "lab_04",
    "diffusers/lab-05": "lab_05",
    "diffusers/lab-06": "lab_06",
    "diffusers/lab-07": "lab_07",
    "diffusers/lab-08": "lab_08",
    "diffusers/lab-09": "lab_09",
    "diffusers/lab-10": "lab_10",
    "diffsynth/lab-01": "sizes",
    "diffsynth/lab-02": "reading",
    "diffsynth/lab-03": "latents",
    "diffsynth/lab-04": "loop",
    "diffsynth/lab-05": "rows",
    "diffsynth/lab-06": "frames",
    "diffsynth/lab-07": "pieces",
    "diffsynth/lab-08": "residency",
    "diffsynth/lab-09": "regions",
    "diffsynth/lab-10": "trace",
}
"""The labs that have a picture, and the module here that draws it: `draw(mine, seed)` → Figure.

`mine` has the submission's functions and classes: a candidate's, or a module's own.
"""
