"""Detect folders that contain much more than one project; the user is warned before one is opened."""

from pathlib import Path

_SYSTEM_FOLDERS = (
    *("/bin", "/boot", "/dev", "/etc", "/home", "/lib", "/lib64", "/opt", "/proc", "/root", "/run", "/sbin", "/srv"),
    *("/sys", "/usr", "/var"),
    *("/Applications", "/Library", "/System", "/Users", "/Volumes", "/private", "/private/etc"),
)


def describe_broad_folder(folder: Path) -> str:
    """Return a description of a folder that is more than a project, such as the home folder; empty for any other."""
    root = folder.resolve()
    if root == Path(root.anchor):
        return "the whole machine"
    try:
        home = Path.home().resolve()
    except RuntimeError:
        # The user has no home folder, as in some containers.
        home = Path("/")
    if root == home:
        return "your home folder"
    if home.is_relative_to(root) or str(root) in _SYSTEM_FOLDERS:
        return "a folder of the system"
    return ""


def broad_folder_warning(description: str) -> str:
    """Return the warning that a workspace is too broad; `description` is from `describe_broad_folder`."""
    return f"This workspace is {description}: the model can read all of it unasked, but for what looks like a secret."
