"""What can go wrong with the store.

Kept apart: whoever tells of an error needs no SQLite for it.
"""


class StorageError(Exception):
    """The store cannot be read or written; the message is one line that says what to do."""


class NoSuchSession(StorageError):
    """The id that was given is no session's, or that of several."""
