"""Find programs outside the workspace.

With an activated environment PATH begins with a folder of the workspace, such as `.venv/bin`. Git ignores it, so
commands of the model write to it: signoff runs no program from there.
"""

import os
import shutil
from collections.abc import Mapping
from pathlib import Path


def absolute_search_path(environment: Mapping[str, str], root: Path | None = None) -> str:
    """Return PATH without relative folders, which may be in the workspace.

    Args:
        root: The workspace: its folders are left out too. The root folder of the system contains all programs, so
            nothing is left out for it.
    """
    workspace = None if root is None or root == Path(root.anchor) else root.resolve()
    folders = map(Path, environment.get("PATH", os.defpath).split(os.pathsep))
    return os.pathsep.join(
        str(folder)
        for folder in folders
        if folder.is_absolute() and (workspace is None or not folder.resolve().is_relative_to(workspace))
    )


def environment_outside(root: Path) -> dict[str, str]:
    """Return signoff's environment with a PATH that leads to no program inside the workspace `root`."""
    return {**os.environ, "PATH": absolute_search_path(os.environ, root)}


def find_program_outside(name: str, root: Path, environment: Mapping[str, str] = os.environ) -> str | None:
    """Return the full path of a program from an absolute folder in PATH outside the workspace; None if not found.

    Args:
        name: A name without a slash.
    """
    return shutil.which(name, path=absolute_search_path(environment, root))
