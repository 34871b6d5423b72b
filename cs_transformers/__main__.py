"""``python -m cs_transformers`` is ``cst``, with the package of the folder you stand in."""

from cs_transformers.cli import main

if __name__ == "__main__":
    main()
