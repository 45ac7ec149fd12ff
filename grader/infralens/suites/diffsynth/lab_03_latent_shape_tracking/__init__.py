"""The suite of diffsynth/lab-03: its checks, and beside them what diffusers does with shapes."""
