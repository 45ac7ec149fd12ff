"""`python -m infralens`: the command, where its script is not on the path."""

from infralens.cli import main

if __name__ == "__main__":
    main(prog_name="infralens")
