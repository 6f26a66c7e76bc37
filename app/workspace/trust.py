"""The user's trust in configuration that a workspace contains, bound to its exact bytes.

Configuration that arrives with a clone or changes with a pull may be written by other people, so the user has to see
it first. `app.config.settings` defines which keys apply without trust (`UNTRUSTED_KEYS`) and which keys a workspace
can never set (`NEVER_FROM_WORKSPACE`).
"""

import hashlib
from typing import Protocol

from app.workspace.paths import Workspace

FILE_NAME = ".signoff.toml"
MAX_TRUSTED_FILE_BYTES = 64 * 1024
"""Maximum bytes of a configuration file."""
_TRUST_SETTING = "trusted_configuration"
"""Key under which the store keeps the fingerprint of the configuration file that the user trusts."""
COMMAND_FILES = "commands"
"""Name under which the user trusts all command files together."""


class TrustStore(Protocol):
    """Stores trust for one workspace, outside of it."""

    def setting(self, key: str) -> str | None:
        """Return the value, or None."""

    def set_setting(self, key: str, value: str | None) -> None:
        """Store a value; None deletes it."""


def sha256_hex(content: bytes) -> str:
    """Return the SHA-256 of the bytes, as hex."""
    return hashlib.sha256(content).hexdigest()


def read_untrusted_workspace_configuration(workspace: Workspace, name: str = FILE_NAME) -> bytes:
    """Return the bytes of a configuration file of the workspace; empty if there is none.

    Raises:
        OSError, WorkspaceError: It cannot be read, is too large, or leads out of the workspace.
    """
    try:
        return workspace.read(name, MAX_TRUSTED_FILE_BYTES)
    except FileNotFoundError:
        return b""


def is_trusted(content: bytes, store: TrustStore, name: str = FILE_NAME) -> bool:
    """Return whether the user trusts exactly these bytes; an empty file needs no trust."""
    return not content or store.setting(_setting_key(name)) == sha256_hex(content)


def store_trust(content: bytes, store: TrustStore, name: str = FILE_NAME) -> None:
    """Store that the user trusts these bytes. Pass the bytes that the user saw: the file may have changed since."""
    store.set_setting(_setting_key(name), sha256_hex(content))


def forget_trust(store: TrustStore, name: str = FILE_NAME) -> None:
    """Delete the user's trust."""
    store.set_setting(_setting_key(name), None)


def _setting_key(name: str) -> str:
    return _TRUST_SETTING if name == FILE_NAME else f"{_TRUST_SETTING}:{name}"
