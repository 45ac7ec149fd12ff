"""InfraLens: self-grading labs about diffusion inference."""

__version__ = "0.1.0"


def load_ipython_extension(shell: object) -> None:
    """`%load_ext infralens` in a notebook: check("3.3"), %grade, %hint, %read and %infralens."""
    from infralens.course.kernel import load

    load(shell)


def unload_ipython_extension(shell: object) -> None:
    """`%unload_ext infralens`, and the first half of `%reload_ext infralens`."""
    from infralens.course.kernel import unload

    unload(shell)
