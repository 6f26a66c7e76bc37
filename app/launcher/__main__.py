"""`python -m signoff`: the command of child processes."""

from . import main

if __name__ == "__main__":
    raise SystemExit(main())
