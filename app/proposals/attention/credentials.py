"""Secrets that a change would write into a file.

Kept apart: the only reason that is looked for inside of strings.
"""

import re
from collections.abc import Iterator, Mapping

from app.proposals.attention.edited import EditedFile, Line
from app.proposals.attention.kinds import is_prose, is_test
from app.proposals.attention.literal_search import LiteralPattern
from app.proposals.attention.reason import Reason, ReasonKind

_KNOWN = {
    "an AWS key": LiteralPattern(r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b", ("AKIA", "ASIA")),
    "a GitHub token": LiteralPattern(
        r"\bgh[pousr]_[A-Za-z0-9]{36}|\bgithub_pat_[A-Za-z0-9_]{40}",
        ("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_"),
    ),
    "an API key": LiteralPattern(
        r"\bsk-(?:ant-|proj-)?[A-Za-z0-9_-]{24}|\b[sr]k_live_[A-Za-z0-9]{16}|\bAIza[0-9A-Za-z_-]{35}",
        ("sk-", "sk_live_", "rk_live_", "AIza"),
    ),
    "a Slack token": LiteralPattern(r"\bxox[abpr]-[0-9A-Za-z-]{20}", ("xoxa-", "xoxb-", "xoxp-", "xoxr-")),
    "a private key": LiteralPattern(r"-----BEGIN [A-Z ]{0,20}PRIVATE KEY-----", ("-----BEGIN ",)),
    "a password in a URL": LiteralPattern(
        r"(?<=[a-z]{2})://[^\s:/@\"'<>{}$]{1,60}:[^\s:/@\"'<>{}$]{6,60}@[\w.]", ("://",)
    ),
}
_ASSIGNED = LiteralPattern(
    r"(?ai:passwo?r?d|secret|token|api_?key|access_?key|private_?key)"
    r"[\"']?\s{0,3}[:=]\s{0,3}[\"']([^\"'\s]{12,120})[\"']",
    ("passw", "secret", "token", "api", "access", "private"),
    ignore_case=True,
)
_STANDS_IN = re.compile(r"(?i)example|placeholder|change|dummy|your|xxx|test|fake|\.\.\.|[<>{}$%()]")
_LONGEST_URL = 1_000
_URL = re.compile(rf"://[^\s\"'`]{{0,{_LONGEST_URL}}}")
"""A URL from where its host or user begins."""


def secrets(file: EditedFile) -> Iterator[Reason]:
    """Added lines that hold something in the form of a secret."""
    patterns = {name: pattern for name, pattern in _KNOWN.items() if pattern.search(file.added_text)}
    known = [(line, name) for line in file.added if patterns for name in _known(line, patterns)]
    if known:
        yield file.reason(ReasonKind.SECRET, (line for line, _ in known), (name for _, name in known))
    elif not is_test(file.path) and not is_prose(file.path) and _ASSIGNED.search(file.added_text):
        found = [line for line in file.added if any(_is_random(match[1]) for match in _ASSIGNED.finditer(line.text))]
        if found:
            yield file.reason(ReasonKind.SECRET, found)


def _known(line: Line, patterns: Mapping[str, LiteralPattern]) -> Iterator[str]:
    for name, pattern in patterns.items():
        if any(not _stands_in(match) for match in pattern.finditer(line.text)):
            yield name


def _stands_in(match: re.Match[str]) -> bool:
    """Whether the URL that a secret is in is an example, or has a place to be filled in."""
    at = match.string.rfind("://", max(0, match.start() - _LONGEST_URL), match.end())
    url = _URL.match(match.string, at) if at >= 0 else None
    return url is not None and url.end() > match.start() and _STANDS_IN.search(url[0]) is not None


def _is_random(text: str) -> bool:
    """Whether it is no word: letters and digits mixed, and nothing that stands in for a secret."""
    digits = sum(each.isdigit() for each in text)
    return 2 <= digits < len(text) - 3 and _STANDS_IN.search(text) is None
