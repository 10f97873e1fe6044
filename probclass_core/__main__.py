"""``python -m probclass_core``: the same as the console script ``probclass``."""

from probclass_core.cli import main

if __name__ == "__main__":
    main()
