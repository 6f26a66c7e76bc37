"""What can go wrong with the store."""


class StorageError(Exception):
    """The store cannot be read or written; the message is one line that says what to do."""
