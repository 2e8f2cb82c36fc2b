"""`python -m toolcrib`: the command line, by the interpreter that has the package."""

from toolcrib.cli import main

if __name__ == "__main__":
    main()
