"""`python -m infralens.examiner`: grade what is asked for on stdin, one JSON document a line."""

from infralens.examiner.serving import main

main()
