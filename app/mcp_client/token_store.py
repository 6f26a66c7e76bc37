"""Tokens of servers to which the user has signed in, in a file that only the user can read.

The file is in the state folder, which commands and servers on a layer cannot see. Logs, sessions and exports contain
no tokens.
"""

import fcntl
import json
import os
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

_EXPIRY_MARGIN_SECONDS = 60.0
"""Seconds before its expiry from which a token counts as expired."""


class OAuthToken(BaseModel):
    """The OAuth tokens for one server URL, with what is needed to renew them."""

    model_config = ConfigDict(frozen=True)

    access_token: str
    refresh_token: str = ""
    expires: float = 0
    """Unix time; 0 if it doesn't expire."""
    token_endpoint: str
    """The URL for renewing it."""
    client_id: str
    client_secret: str = ""
    resource: str = ""
    """The resource for which it is valid."""

    def __repr__(self) -> str:
        """Return a text without the secrets."""
        return "Token(…)"

    __str__ = __repr__

    @property
    def is_expired(self) -> bool:
        """Return whether it has expired or will within a minute."""
        return bool(self.expires) and time.time() > self.expires - _EXPIRY_MARGIN_SECONDS


class TokenStore:
    """Stores the OAuth tokens of the MCP servers in one file, by server URL; blocks."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()

    def get(self, url: str) -> OAuthToken | None:
        """Return the token for a URL; None if there is none or it can't be read."""
        try:
            return OAuthToken.model_validate(self._read()[url])
        except (OSError, KeyError, ValidationError):
            return None

    def save(self, url: str, token: OAuthToken | None) -> None:
        """Store a token, or delete it with None. Raises OSError."""
        with self._lock, self._file_lock():
            tokens = self._read()
            tokens.pop(url, None)
            if token is not None:
                tokens[url] = token.model_dump()
            # mkstemp creates the file with mode 0600, whatever the umask.
            descriptor, partial = tempfile.mkstemp(prefix=".tokens-", dir=self._path.parent)
            try:
                with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                    json.dump(tokens, file)
                Path(partial).replace(self._path)
            except BaseException:
                Path(partial).unlink(missing_ok=True)
                raise

    @contextmanager
    def _file_lock(self) -> Iterator[None]:
        """Lock the file against other processes while it is read and written."""
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        lock = os.open(self._path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        finally:
            os.close(lock)

    def _read(self) -> dict[str, Any]:
        """Return the tokens by URL; none if the file is missing or damaged. Raises OSError if it can't be read."""
        try:
            tokens = json.loads(self._path.read_text(encoding="utf-8"))
        except (FileNotFoundError, ValueError):
            return {}
        return tokens if isinstance(tokens, dict) else {}
