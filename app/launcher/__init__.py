"""What is installed as `signoff`: finds the bundled packages, puts them first on the path, starts the CLI.

The repository keeps plain top-level packages (`app`, `widgets`), which a user's own project may have too.
In a wheel they lie under `signoff/_bundle`, so that `signoff` is the only name that it adds.
"""

import os
import sys
from contextlib import suppress
from pathlib import Path


def _root() -> Path | None:
    """The folder that holds `app`, `widgets` and `themes`: the wheel's bundle, else the editable checkout."""
    bundle = Path(__file__).resolve().parent / "_bundle"
    if bundle.is_dir():
        return bundle
    candidates = (Path(entry) for entry in sys.path)
    return next((path for path in candidates if (path / "app" / "launcher" / "__main__.py").is_file()), None)


def main() -> int:
    """Run the command line and return its exit code."""
    if sys.argv[1:2] == ["hook"]:
        return _hook()
    return _start()


def _start() -> int:
    try:
        if root := _root():
            sys.path.insert(0, str(root))
        from app.cli.main import main as run

        return run()
    except KeyboardInterrupt:
        # While all that was still being loaded.
        return 130


def _hook() -> int:
    """The same for what another agent calls before each tool: it loads little, and all that fails is a denial."""
    try:
        if root := _root():
            sys.path.insert(0, str(root))
        from app.doors.hook.entry import hook

        return hook(sys.argv[2:])
    except BaseException as error:
        with suppress(OSError):
            os.write(2, f"Denied, and nothing was written: signoff does not start ({error}).\n".encode())
        return 2
