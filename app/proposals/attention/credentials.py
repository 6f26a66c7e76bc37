"""Secrets that a change would write into a file.

Kept apart: the only reason that is looked for inside of strings.
"""

import re
from collections.abc import Iterator

from app.proposals.attention.edited import EditedFile, Line
from app.proposals.attention.kinds import is_prose, is_test
from app.proposals.attention.reason import Reason, ReasonKind

_KNOWN = {
    "an AWS key": re.compile(r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b"),
    "a GitHub token": re.compile(r"\bgh[pousr]_[A-Za-z0-9]{36}|\bgithub_pat_[A-Za-z0-9_]{40}"),
    "an API key": re.compile(
        r"\bsk-(?:ant-|proj-)?[A-Za-z0-9_-]{24}|\b[sr]k_live_[A-Za-z0-9]{16}|\bAIza[0-9A-Za-z_-]{35}"
    ),
    "a Slack token": re.compile(r"\bxox[abpr]-[0-9A-Za-z-]{20}"),
    "a private key": re.compile(r"-----BEGIN [A-Z ]{0,20}PRIVATE KEY-----"),
    "a password in a URL": re.compile(r"\b[a-z]{2,12}://[^\s:/@\"'<>{}$]{1,60}:[^\s:/@\"'<>{}$]{6,60}@[\w.]"),
}
_ASSIGNED = re.compile(
    r"(?i)(?:passwo?r?d|secret|token|api_?key|access_?key|private_?key)[\"']?\s{0,3}[:=]\s{0,3}[\"']([^\"'\s]{12,120})[\"']"
)
_STANDS_IN = re.compile(r"(?i)example|placeholder|change|dummy|your|xxx|test|fake|\.\.\.|[<>{}$%()]")


def secrets(file: EditedFile) -> Iterator[Reason]:
    """Added lines that hold something in the form of a secret."""
    known = [(line, name) for line in file.added for name in _known(line)]
    if known:
        yield file.reason(ReasonKind.SECRET, (line for line, _ in known), (name for _, name in known))
    elif not is_test(file.path) and not is_prose(file.path) and _ASSIGNED.search(file.added_text):
        found = [line for line in file.added if any(map(_is_random, _ASSIGNED.findall(line.text)))]
        if found:
            yield file.reason(ReasonKind.SECRET, found)


def _known(line: Line) -> Iterator[str]:
    for name, pattern in _KNOWN.items():
        if pattern.search(line.text) and not _STANDS_IN.search(line.text.partition("://")[2]):
            yield name


def _is_random(text: str) -> bool:
    """Whether it is no word: letters and digits mixed, and nothing that stands in for a secret."""
    digits = sum(each.isdigit() for each in text)
    return 2 <= digits < len(text) - 3 and _STANDS_IN.search(text) is None
