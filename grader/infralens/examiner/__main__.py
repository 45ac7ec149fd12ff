"""`python -m infralens.examiner`: grade what is asked for on stdin, one JSON document a line."""

import os

from infralens.examiner.service.serve import main

main()
os._exit(0)  # taking torch and diffusers apart would take half a second
