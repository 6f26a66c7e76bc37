"""From a path in a call to a file that the tool may use, with the user's yes where it looks like a secret."""

from collections.abc import Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from itertools import islice
from pathlib import PurePosixPath

from app.tools.contract import Confirmation, Rejected, ToolContext, ToolError
from app.workspace.paths import Workspace, WorkspaceError
from app.workspace.secrets import secret_reason

_LOOKED_THROUGH = 50_000
"""Files of the workspace that are looked through for a similar name."""


def locate(workspace: Workspace, path: str) -> str:
    """The workspace path that the model means; raises ToolError for one that it must not touch."""
    with explained(path):
        return workspace.locate(path)


@contextmanager
def explained(path: str) -> Iterator[None]:
    """Turn what the file system says about `path` into a ToolError."""
    try:
        yield
    except WorkspaceError as error:
        raise ToolError(f"Not done: {error}.") from error
    except FileNotFoundError as error:
        raise ToolError(f"{path} does not exist.") from error
    except IsADirectoryError as error:
        raise ToolError(f"{path} is a folder. Use list_files to see what is in it.") from error
    except OSError as error:
        raise ToolError(f"{path} can't be read: {error.strerror or error}.") from error


def looks_secret(workspace: Workspace, path: str, content: bytes | None = None) -> str:
    """Why the file looks like a secret, by either of its names if the path is a link; empty if it doesn't."""
    with explained(path):
        real = workspace.resolve(path)
    return secret_reason(path, content) or (secret_reason(real, content) if real != path else "")


async def ask_if_secret(context: ToolContext, path: str, content: bytes | None = None) -> None:
    """Ask the user before the model gets to see anything of a file that looks like a secret.

    A file that isn't on disk holds only what the model itself wrote, so it needs no question.

    Raises:
        Rejected: The user said no.
        ToolError: The path is not one to touch.
    """
    reason = looks_secret(context.workspace, path, content)
    if not reason:
        return
    with explained(path):
        if context.workspace.kind(path) == "missing":
            return
    folder = PurePosixPath(path).parent.as_posix()
    answer = await context.confirm(
        Confirmation("secret", f"Let the model see {path}? It looks like a secret: {reason}.", path, folder)
    )
    if not answer.allowed:
        raise Rejected(f"The user did not let you see {path}: it looks like a secret.", answer.feedback)


def similar_files(workspace: Workspace, path: str, added: set[str]) -> list[str]:
    """Up to five files that the model may have meant instead of one that doesn't exist."""
    wanted = PurePosixPath(path).name.casefold()
    by_name: dict[str, list[str]] = {}
    for known in [*sorted(added), *islice(workspace.files(), _LOOKED_THROUGH)]:
        by_name.setdefault(PurePosixPath(known).name.casefold(), []).append(known)
    names = get_close_matches(wanted, by_name, 3, 0.75)
    return [known for name in names for known in by_name[name]][:5]
