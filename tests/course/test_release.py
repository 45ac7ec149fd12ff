"""A course made from labs: what is in a notebook, and what the real nbgrader releases of it."""

from __future__ import annotations

import pytest
from nbformat import NotebookNode

from infralens.course.notebooks import source_notebook
from infralens.labs import Lab, find_lab, find_labs
from infralens.stubs import answer_lines

LABS = find_labs()
LAB = find_lab("lab-03", LABS)


def made(lab: Lab) -> NotebookNode:
    return source_notebook(lab, {todo.id: todo.points for todo in lab.todos})


@pytest.mark.parametrize("lab", LABS, ids=lambda lab: lab.id)
def test_the_cells_of_a_notebook_are_the_whole_solution(lab: Lab) -> None:
    assert lab.solution is not None
    cells = {cell.id: cell for cell in made(lab).cells}
    code = "\n".join(cell.source for cell in cells.values() if cell.cell_type == "code")
    solution = lab.solution.read_text(encoding="utf-8")
    assert set(answer_lines(solution)) <= set(map(str.strip, code.splitlines()))
    for todo in lab.todos:
        name = todo.id.replace(".", "-")
        assert all(f" {defined}" in cells[f"answer-{name}"].source for defined in todo.names)
        assert cells[f"check-{name}"].metadata.nbgrader.points == todo.points
