"""The suite of diffsynth/lab-08: its checks, and beside them what diffusers does with weights that
do not stay and with calls that are left out.
"""
