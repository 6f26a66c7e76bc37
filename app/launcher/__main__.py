"""`python -m signoff`: what child processes are started with."""

from . import main

if __name__ == "__main__":
    raise SystemExit(main())
