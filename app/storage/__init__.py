"""The SQLite store of sessions, proposals and the apply journal."""


class StorageError(Exception):
    """The store cannot be read or written; the message says what to do."""


class SessionNotFoundOrAmbiguous(StorageError):
    """A session id matches no session, or several."""
