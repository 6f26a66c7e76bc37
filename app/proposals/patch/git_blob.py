"""Git's ids of contents, as the `index` lines of its diffs name them."""

import hashlib

_SHORTEST = 7
"""A shorter id says too little."""


def could_be_blob(data: bytes, blob_id: str) -> bool:
    """Whether git's id of the content begins with these hex digits, however few they are."""
    header = b"blob %d\0" % len(data)
    digest = hashlib.sha256 if len(blob_id) > 40 else hashlib.sha1
    return digest(header + data, usedforsecurity=False).hexdigest().startswith(blob_id)


def is_blob(data: bytes, blob_id: str) -> bool:
    """Whether git's id of the content begins with `blob_id`; shorter than 7 digits says nothing."""
    return len(blob_id) >= _SHORTEST and could_be_blob(data, blob_id)
