"""`nbgrader autograde` of this kit's notebooks: restored, judged by an examiner, and told.

A submission goes through three passes of nbgrader's. `TolerantExporter` reads it as hostile data;
`RestoreCells` rebuilds the notebook that was released around its answers; `Examine` has them judged
in processes of their own and writes verdict and points where nbgrader looks for them. No kernel
runs, and what no verdict was written for is an error, never points.
"""

from infralens.course.autograde.examine import Examine as Examine
from infralens.course.autograde.exporter import TolerantExporter as TolerantExporter
from infralens.course.autograde.restore import RestoreCells as RestoreCells
