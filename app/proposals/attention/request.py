"""Which files of a proposal the user's words name, and which they don't.

Kept apart: the only reason that depends on more than the change.
"""

import re
from collections.abc import Collection

from app.proposals.attention.kinds import is_test, subject

_WORD = re.compile(r"[\w./\\-]+")


def not_named(request: str, paths: Collection[str]) -> frozenset[str]:
    """The paths that the words leave out; none where they name no path, which leaves the choice to the model.

    The tests of what is named are named with it, and so is all that is in a folder that is named.
    """
    words = {word.replace("\\", "/").strip("./-").removesuffix("/") for word in _WORD.findall(request)}
    named = {path for path in paths if _is_named(path, words)}
    if not named:
        return frozenset()
    subjects = {subject(path) for path in named}
    return frozenset(
        path for path in paths if path not in named and not (is_test(path) and subject(path) in subjects)
    )


def _is_named(path: str, words: Collection[str]) -> bool:
    folder, _, name = path.rpartition("/")
    if path.strip("./") in words or name.strip("./-") in words:
        return True
    above = folder.split("/") if folder else []
    if any("/".join(above[:depth]) in words for depth in range(1, len(above) + 1)):
        return True
    stem = name.partition(".")[0]
    return "_" in stem.strip("_") and stem in words
