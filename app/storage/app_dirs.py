"""Folders of signoff's configuration and state."""

import os
from pathlib import Path

HOME_VARIABLE = "SIGNOFF_HOME"
"""Environment variable with a folder that contains both folders."""


class AppDirs:
    """The folders and files of one installation for one user."""

    def __init__(self, config: Path, state: Path, home: Path | None = None) -> None:
        self.config = config
        """Folder of `config.toml`, `themes/` and other files that the user writes."""
        self.state = state
        """Folder of the database and the locks; only its owner can read it."""
        self.home = home
        """The folder above both if `SIGNOFF_HOME` is set."""
        self.config_file = config / "config.toml"
        """The user's configuration file."""
        self.themes = config / "themes"
        """The folder of the user's themes."""
        self.commands = config / "commands"
        """The folder of the user's custom commands."""
        self.skills = config / "skills"
        """The folder of the user's skills; each skill is a folder in it."""
        self.database = state / "signoff.db"
        """The database file, which all workspaces share."""
        self.locks = state / "locks"
        """The folder of the lock files: one per workspace, per open session and per running report to an agent."""
        self.runs = state / "runs"
        """The folder of the temporary folders of running commands."""
        self.kept_versions = state / "kept"
        """The folder of versions of ignored files that could not be written back after a command."""
        self.tokens = state / "tokens.json"
        """The file of the OAuth tokens of MCP servers."""
        self.log = state / "signoff.log"
        """The log file of internal errors."""
        self.first_pictures = state / "first-pictures"
        """The folder of the pictures that are shown while the app is loaded."""
        self.signals = state / "signals"
        """The folder of the files that signal changes to other processes, one per workspace."""

    @property
    def own_folders(self) -> tuple[Path, ...]:
        """Return what the model never reads: also the platform's folders if `SIGNOFF_HOME` is set, and each
        `config.toml` that is a link.
        """
        folders = (self.state, self.config, *(_platform_folders() if self.home is not None else ()))
        # With its configuration among other dotfiles, the file with the API key lies elsewhere.
        files = (folder / self.config_file.name for folder in folders)
        return *folders, *filter(Path.is_symlink, files)

    @property
    def misplaced_config_file(self) -> Path | None:
        """Return a configuration file directly in `SIGNOFF_HOME`, where it is not read; None if there is none."""
        if self.home is None or self.config_file.exists():
            return None
        misplaced = self.home / self.config_file.name
        return misplaced if misplaced.exists() else None

    def session_lock(self, session_id: str) -> Path:
        """Return the lock file of a session."""
        return self.locks / f"session-{session_id}.lock"


def find_app_dirs() -> AppDirs:
    """Return the platform's folders, or those below `SIGNOFF_HOME`."""
    if home := os.environ.get(HOME_VARIABLE):
        root = Path(home).expanduser().absolute()
        return AppDirs(config=root / "config", state=root / "state", home=root)
    config, state = _platform_folders()
    return AppDirs(config, state)


def _platform_folders() -> tuple[Path, Path]:
    """Return the platform's folders of configuration and state."""
    from platformdirs import user_config_path, user_state_path

    return user_config_path("signoff"), user_state_path("signoff")
