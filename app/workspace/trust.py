"""The user's trust in configuration that a workspace contains, bound to its exact bytes.

A configuration that arrives with a clone, or changes with a pull, is somebody else's wish until the user has seen
it. `app.config.settings` holds which keys count before that (`UNTRUSTED_KEYS`) and which never do
(`NEVER_FROM_WORKSPACE`).
"""

import hashlib
from typing import Protocol

from app.workspace.paths import Workspace

FILE_NAME = ".signoff.toml"
MAX_TRUSTED_FILE_BYTES = 64 * 1024
"""Bytes that a configuration file may have."""
SETTING = "trusted_configuration"
"""Key under which the store keeps the fingerprint of the configuration file that the user trusts."""
COMMAND_FILES = "commands"
"""The name of what all files of commands say together."""


class TrustStore(Protocol):
    """Stores trust for one workspace, outside of it."""

    def setting(self, key: str) -> str | None:
        """The value, or None."""
        ...

    def set_setting(self, key: str, value: str | None) -> None:
        """Keep a value; None forgets it."""
        ...


def sha256_hex(content: bytes) -> str:
    """SHA-256 of the bytes, as hex."""
    return hashlib.sha256(content).hexdigest()


def read_workspace_configuration(workspace: Workspace, name: str = FILE_NAME) -> bytes:
    """The bytes of a configuration file of the workspace, empty if there is none.

    Raises:
        OSError, WorkspaceError: It can't be read, is too large, or leads out of the workspace.
    """
    try:
        return workspace.read(name, MAX_TRUSTED_FILE_BYTES)
    except FileNotFoundError:
        return b""


def is_trusted(content: bytes, store: TrustStore, name: str = FILE_NAME) -> bool:
    """Whether the user has trusted exactly these bytes; an empty file needs no trust."""
    return not content or store.setting(_setting(name)) == sha256_hex(content)


def store_trust(content: bytes, store: TrustStore, name: str = FILE_NAME) -> None:
    """Store that the user trusts these bytes; pass the bytes that were shown, not those on disk by now."""
    store.set_setting(_setting(name), sha256_hex(content))


def forget_trust(store: TrustStore, name: str = FILE_NAME) -> None:
    """Forget the user's trust."""
    store.set_setting(_setting(name), None)


def _setting(name: str) -> str:
    return SETTING if name == FILE_NAME else f"{SETTING}:{name}"
