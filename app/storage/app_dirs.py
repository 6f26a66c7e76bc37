"""Folders of signoff's configuration and state."""

import os
from pathlib import Path
from typing import NamedTuple

HOME_VARIABLE = "SIGNOFF_HOME"
"""Environment variable with a folder that contains both folders."""


class AppDirs(NamedTuple):
    """The folders and files of one installation for one user."""

    config: Path
    """Folder of `config.toml`, `themes/` and other files that the user writes."""
    state: Path
    """Folder of the database and the locks; only its owner can read it."""
    home: Path | None = None
    """The folder above both if `SIGNOFF_HOME` is set."""

    @property
    def config_file(self) -> Path:
        """Return the user's configuration file."""
        return self.config / "config.toml"

    @property
    def misplaced_config_file(self) -> Path | None:
        """Return a configuration file directly in `SIGNOFF_HOME`, where it is not read; None if there is none."""
        if self.home is None or self.config_file.exists():
            return None
        misplaced = self.home / self.config_file.name
        return misplaced if misplaced.exists() else None

    @property
    def themes(self) -> Path:
        """Return the folder of the user's themes."""
        return self.config / "themes"

    @property
    def commands(self) -> Path:
        """Return the folder of the user's custom commands."""
        return self.config / "commands"

    @property
    def skills(self) -> Path:
        """Return the folder of the user's skills; each skill is a folder in it."""
        return self.config / "skills"

    @property
    def database(self) -> Path:
        """Return the database file, which all workspaces share."""
        return self.state / "signoff.db"

    @property
    def locks(self) -> Path:
        """Return the folder of the lock files: one per workspace and one per open session."""
        return self.state / "locks"

    @property
    def runs(self) -> Path:
        """Return the folder of the temporary folders of running commands."""
        return self.state / "runs"

    @property
    def kept_versions(self) -> Path:
        """Return the folder of versions of ignored files that could not be written back after a command."""
        return self.state / "kept"

    def session_lock(self, session_id: str) -> Path:
        """Return the lock file of a session."""
        return self.locks / f"session-{session_id}.lock"

    @property
    def tokens(self) -> Path:
        """Return the file of the OAuth tokens of MCP servers."""
        return self.state / "tokens.json"

    @property
    def log(self) -> Path:
        """Return the log file of internal errors."""
        return self.state / "signoff.log"

    @property
    def first_pictures(self) -> Path:
        """Return the folder of the pictures that are shown while the app is loaded."""
        return self.state / "first-pictures"

    @property
    def signals(self) -> Path:
        """Return the folder of the files that signal changes to other processes, one per workspace."""
        return self.state / "signals"


def find_app_dirs() -> AppDirs:
    """Return the platform's folders, or those below `SIGNOFF_HOME`."""
    if home := os.environ.get(HOME_VARIABLE):
        root = Path(home).expanduser().absolute()
        return AppDirs(config=root / "config", state=root / "state", home=root)
    from platformdirs import user_config_path, user_state_path

    return AppDirs(config=user_config_path("signoff"), state=user_state_path("signoff"))
