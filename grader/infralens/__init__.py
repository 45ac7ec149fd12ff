"""InfraLens: self-grading labs about diffusion inference."""

__version__ = "0.1.0"
