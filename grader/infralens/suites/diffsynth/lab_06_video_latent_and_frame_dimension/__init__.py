"""The suite of diffsynth/lab-06: its checks, and beside them what diffusers does with frames."""
