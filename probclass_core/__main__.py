"""``python -m probclass_core``: the command line where no script ``probclass`` is on the path."""

from probclass_core.cli import main

if __name__ == "__main__":
    main()
