"""The suite of diffsynth/lab-05: its checks, and what diffusers does with conditions."""
