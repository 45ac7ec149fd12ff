"""A pyproject.toml beside the stub, which asks pytest only to collect.

Kind: Reaching the verdict
Relies on: pytest reading its configuration where the submission lies
Breaks naive: points
"""


def build(stub, solution, folder):
    text = '[tool.pytest.ini_options]\naddopts = "--collect-only"\n'
    (folder / "pyproject.toml").write_text(text)
    path = folder / "submission.py"
    path.write_text(stub, encoding="utf-8")
    return path
