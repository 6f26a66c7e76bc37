"""Folders of signoff's configuration and state."""

import os
from pathlib import Path
from typing import NamedTuple

HOME_VARIABLE = "SIGNOFF_HOME"
"""Environment variable that moves both folders below one."""


class AppDirs(NamedTuple):
    """The folders and files of one installation for one user."""

    config: Path
    """Folder of `config.toml`, `themes/` and whatever else the user writes."""
    state: Path
    """Folder of the database and the locks; readable by its owner only."""
    home: Path | None = None
    """The folder above both, where `SIGNOFF_HOME` names one."""

    @property
    def config_file(self) -> Path:
        """The user's configuration."""
        return self.config / "config.toml"

    @property
    def misplaced_config_file(self) -> Path | None:
        """Path at which users expect the configuration, but where it is not read."""
        if self.home is None or self.config_file.exists():
            return None
        found = self.home / self.config_file.name
        return found if found.exists() else None

    @property
    def themes(self) -> Path:
        """Folder of the user's own themes."""
        return self.config / "themes"

    @property
    def commands(self) -> Path:
        """Folder of the user's own commands."""
        return self.config / "commands"

    @property
    def skills(self) -> Path:
        """Folder of the user's own skills, each in a folder of its own."""
        return self.config / "skills"

    @property
    def database(self) -> Path:
        """The one database."""
        return self.state / "signoff.db"

    @property
    def locks(self) -> Path:
        """Folder of the lock files: one per workspace, and one per session that is open."""
        return self.state / "locks"

    @property
    def runs(self) -> Path:
        """Folder of the temporary folders of running commands."""
        return self.state / "runs"

    @property
    def kept_versions(self) -> Path:
        """Folder of versions of ignored files that could not be written back after a command."""
        return self.state / "kept"

    def session_lock(self, session_id: str) -> Path:
        """Return the lock file of a session."""
        return self.locks / f"session-{session_id}.lock"

    @property
    def tokens(self) -> Path:
        """File of the OAuth tokens of MCP servers."""
        return self.state / "tokens.json"

    @property
    def log(self) -> Path:
        """The log file of internal errors."""
        return self.state / "signoff.log"

    @property
    def first_pictures(self) -> Path:
        """Folder of what the app shows while it is being loaded."""
        return self.state / "first-pictures"

    @property
    def signals(self) -> Path:
        """Folder of the files that signal changes to other processes, one per workspace."""
        return self.state / "signals"


def find_app_dirs() -> AppDirs:
    """Return the platform's folders, or those below `SIGNOFF_HOME`."""
    if home := os.environ.get(HOME_VARIABLE):
        root = Path(home).expanduser().absolute()
        return AppDirs(config=root / "config", state=root / "state", home=root)
    from platformdirs import user_config_path, user_state_path

    return AppDirs(config=user_config_path("signoff"), state=user_state_path("signoff"))
