"""`python -m assay` is the command `assay`."""

from pipelines.cli.app import main

if __name__ == "__main__":
    main()
