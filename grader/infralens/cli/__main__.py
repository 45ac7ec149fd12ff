"""`python -m infralens.cli`."""

from infralens.cli.group import main

main()
