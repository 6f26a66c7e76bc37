"""Defects that can be planted in a changed file of any commit: edits of a careless author."""

import re
from collections.abc import Callable, Iterator, Mapping

from app.proposals.risk.edited_file import is_generated_file, is_test_or_test_data, manifest_name_of_lock_file
from tests.attention.commits import Texts

MIN_FILES = 3
"""In smaller commits, the position of a file says nothing."""


def plant_defect(files: Mapping[str, Texts], *, number: int) -> tuple[str, dict[str, Texts]] | None:
    """Return the path of the last file and the commit with a defect in it; None if there are too few files.

    `number` chooses among the defects that fit the file.
    """
    paths = sorted(path for path, (old, new) in files.items() if new is not None and old is not None)
    if len(files) < MIN_FILES or not paths:
        return None
    path = paths[-1]
    old, new = files[path]
    if (
        path != max(files)
        or new is None
        or manifest_name_of_lock_file(path) is not None
        or is_generated_file(path, (old or "").split("\n"))
    ):
        return None
    kinds = list(_fitting_defects(path, new))
    if not kinds:
        return None
    return path, {**files, path: (old, kinds[number % len(kinds)](new))}


def _fitting_defects(path: str, text: str) -> Iterator[Callable[[str], str]]:
    """Yield the defects that fit a file, including defects that no rule can detect."""
    if is_test_or_test_data(path):
        for pattern in (r"^[ \t]*(?:assert\b|self\.assert|expect\().*\n", r"^[ \t]*(?:async )?def test_\w+.*\n"):
            if re.search(pattern, text, re.MULTILINE):
                yield _remove_match(pattern)
    elif path.endswith(".py"):
        yield _append("\ndef reload(text):\n    return eval(text)\n")
        yield _append("\ndef quietly(work):\n    try:\n        work()\n    except Exception:\n        pass\n")
        yield _append('\ndef report(text):\n    os.system("logger " + text)\n')
        for pattern in (r"^[ \t]*raise\b.*\n", r"^[ \t]*assert\b.*\n"):
            if re.search(pattern, text, re.MULTILINE):
                yield _remove_match(pattern)
    elif path.endswith((".js", ".ts", ".tsx", ".mjs")):
        yield _append("\nexport function reload(text) {\n  return eval(text);\n}\n")
        yield _append("\nexport function quietly(work) {\n  try {\n    work();\n  } catch (error) {\n  }\n}\n")
        if re.search(r"^[ \t]*throw\b.*\n", text, re.MULTILINE):
            yield _remove_match(r"^[ \t]*throw\b.*\n")
    if re.search(r"[^<>=!-]<=? ", text) and not is_test_or_test_data(path):
        yield (
            lambda whole: (
                re.sub(r"([^<>=!-])<= ", r"\1< ", whole, count=1) if "<= " in whole else whole.replace("< ", "<= ", 1)
            )
        )


def _append(more: str) -> Callable[[str], str]:
    return lambda text: text.rstrip("\n") + "\n" + more


def _remove_match(pattern: str) -> Callable[[str], str]:
    return lambda text: re.sub(pattern, "", text, count=1, flags=re.MULTILINE)
