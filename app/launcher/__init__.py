"""Entry point of the installed `signoff`: puts the bundled packages first on `sys.path` and starts the command line.

The repository keeps plain top-level packages (`app`, `widgets`), which a user's own project may have too. A wheel
contains them in `signoff/_bundle`, so that `signoff` is the only top-level package that it installs.
"""

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from .deadline import HookReplyPipes


def main() -> int:
    """Run the command line and return its exit code."""
    if sys.argv[1:2] == ["hook"]:
        # Import `deadline` first: it measures the time of the hook.
        from .deadline import run_hook_with_deadline

        return run_hook_with_deadline(sys.argv[2:], _run_hook)
    return _run_command_line()


def _find_root() -> "Path | None":
    """Return the folder that contains `app`, `widgets` and `themes`: the wheel's bundle, or the editable checkout."""
    from pathlib import Path

    bundle = Path(__file__).resolve().parent / "_bundle"
    if bundle.is_dir():
        return bundle
    candidates = (Path(entry) for entry in sys.path)
    return next((path for path in candidates if (path / "app" / "launcher" / "__main__.py").is_file()), None)


def _run_command_line() -> int:
    try:
        if root := _find_root():
            sys.path.insert(0, str(root))
        from app.cli.main import main as run

        return run()
    except KeyboardInterrupt:
        # Ctrl+C while modules were imported.
        return 130


def _run_hook(arguments: "Sequence[str]", agent: "HookReplyPipes") -> int:
    """Answer a tool call of another agent; imports little, and turns every failure into a denial."""
    try:
        if root := _find_root():
            sys.path.insert(0, str(root))
        from app.doors.hook.hook_entry import run_hook

        return run_hook(arguments, agent)
    except BaseException as error:
        from contextlib import suppress

        with suppress(OSError):
            os.write(2, f"Denied, and nothing was written: signoff does not start ({error}).\n".encode())
        return 2
