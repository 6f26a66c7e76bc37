"""Sample proposals for the tests of the review: small, and honest about positions because they are computed."""

import difflib
import hashlib
from collections.abc import Sequence

from app.proposals.text.document import Document
from app.proposals.text.file_warnings import deceptive_text_warnings_and_remarks
from app.proposals.values.models import (
    EditMatch,
    FileChange,
    FileDiff,
    FileOperation,
    FileVersion,
    Hunk,
    MatchLevel,
    Proposal,
    ProposalState,
)

BEFORE = '''\
"""Fetches pages."""

import time
from urllib.request import urlopen

RETRIES = 2


def fetch(url, timeout=10):
    """Fetch a page."""
    for attempt in range(RETRIES):
        try:
            return urlopen(url, timeout=timeout).read()
        except OSError:
            time.sleep(attempt)
    return None


def title(page):
    start = page.index(b"<title>") + 7
    return page[start : page.index(b"</title>")]


def links(page):
    found = []
    for part in page.split(b"href=")[1:]:
        found.append(part.split(b'"')[1])
    return found


def main():
    page = fetch("https://example.org")
    print(title(page))
    for link in links(page):
        print(link)
'''

AFTER = '''\
"""Fetches pages."""

import logging
import time
from urllib.request import urlopen

RETRIES = 3
log = logging.getLogger(__name__)


def fetch(url, timeout=10):
    """Fetch a page, or raise the last error."""
    for attempt in range(RETRIES):
        try:
            return urlopen(url, timeout=timeout).read()
        except OSError as error:
            log.warning("attempt %d failed: %s", attempt, error)
            time.sleep(2**attempt)
    raise TimeoutError(url)


def title(page):
    start = page.index(b"<title>") + 7
    return page[start : page.index(b"</title>")]


def links(page):
    found = []
    for part in page.split(b"href=")[1:]:
        found.append(part.split(b'"')[1])
    return found


def main():
    page = fetch("https://example.org")
    print(title(page).decode())
    for link in links(page):
        print(link)
'''


def version(text: str) -> FileVersion:
    data = text.encode("utf-8", "surrogateescape")
    return FileVersion(sha256=hashlib.sha256(data).hexdigest(), size=len(data))


def file_diff(
    path: str,
    old: str | None,
    new: str | None,
    *,
    first: int = 1,
    rung: MatchLevel = MatchLevel.EXACT,
    old_path: str = "",
    hunks: Sequence[Hunk] | None = None,
    mode: int = 0o644,
    repeat_of: str = "",
    **facts: object,
) -> FileDiff:
    """The diff of one file; None stands for no file. `mode` is that of the result."""
    old_lines, new_lines = _lines(old), _lines(new)
    found: list[Hunk] = []
    if hunks is None:
        matcher = difflib.SequenceMatcher(None, old_lines, new_lines, autojunk=False)
        for tag, a, b, c, d in matcher.get_opcodes():
            if tag == "equal":
                continue
            text = f"{path}\0{old_lines[a:b]}\0{new_lines[c:d]}\0{len(found)}"
            found.append(
                Hunk(
                    id=hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:12],
                    number=first + len(found),
                    old_start=a,
                    old_count=b - a,
                    new_start=c,
                    new_count=d - c,
                    repeat_of=repeat_of,
                )
            )
    else:
        found = list(hunks)
    op = (
        FileOperation.CREATE
        if old is None
        else FileOperation.DELETE
        if new is None
        else FileOperation.RENAME
        if old_path
        else FileOperation.EDIT
    )
    change = FileChange(
        path=path,
        old_path=old_path,
        op=op,
        base=None if old is None else version(old),
        result=None if new is None else version(new).model_copy(update={"mode": mode}),
        hunks=tuple(found),
        added=sum(hunk.new_count for hunk in found),
        removed=sum(hunk.old_count for hunk in found),
        matches=(EditMatch(rung=rung, line=found[0].old_start + 1),) if found else (),
    )
    warnings, mentions = deceptive_text_warnings_and_remarks(
        path, Document((new or "").encode("utf-8", "surrogatepass")), found
    )
    change = change.model_copy(update={"warnings": warnings, "mentions": mentions} | facts)
    return FileDiff(
        change=change,
        old=tuple(old_lines),
        new=tuple(new_lines),
        old_final_newline=old is None or not old or old.endswith("\n"),
        new_final_newline=new is None or not new or new.endswith("\n"),
    )


def _lines(text: str | None) -> list[str]:
    if not text:
        return []
    return text.removesuffix("\n").split("\n")


def proposal(proposal_id: str, diffs: Sequence[FileDiff], summary: str = "", **facts: object) -> Proposal:
    number = int(proposal_id.removeprefix("P"))
    return Proposal(
        id=proposal_id,
        workspace="/work",
        created=1_700_000_000.0 + number,
        summary=summary or f"Change {diffs[0].change.path}",
        files=tuple(diff.change for diff in diffs),
    ).model_copy(update=facts)


Item = tuple[Proposal, Sequence[FileDiff]]
"""A proposal and its diffs."""


def proposed(*diffs: FileDiff, summary: str = "", **facts: object) -> Item:
    """The proposal P1 over these diffs, with them."""
    return proposal("P1", diffs, summary, **facts), diffs


def retry_change() -> list[FileDiff]:
    """Three hunks in one file, and a new test file."""
    first = file_diff("app/fetch.py", BEFORE, AFTER)
    test = (
        "import pytest\n\nfrom app.fetch import fetch\n\n\ndef test_raises_after_the_last_attempt():\n"
        '    with pytest.raises(TimeoutError):\n        fetch("http://127.0.0.1:9", timeout=0.1)\n'
    )
    second = file_diff("tests/test_fetch.py", None, test, first=len(first.change.hunks) + 1)
    return [first, second]


def retry_proposal(proposal_id: str = "P1", **facts: object) -> tuple[Proposal, list[FileDiff]]:
    diffs = retry_change()
    return proposal(proposal_id, diffs, "Retry with back-off and raise instead of returning None", **facts), diffs


def stale(value: Proposal, reason: str) -> Proposal:
    return value.model_copy(update={"state": ProposalState.STALE, "reason": reason, "revision": value.revision + 1})


def many_lines(count: int) -> list[FileDiff]:
    """One new file of `count` lines."""
    return [
        file_diff_of_hunks(
            "big.py", [], [f"value_{number} = {number} * 2" for number in range(count)], [(0, 0, 0, count)]
        )
    ]


def blocks(lines: int, every: int = 60, changed: int = 10) -> list[FileDiff]:
    """A file in which `changed` of every `every` lines are different."""
    old = [f"    value_{number} = compute({number}, 'text')" for number in range(lines)]
    new = list(old)
    spans = []
    for start in range(0, lines - changed, every):
        for line in range(start, start + changed):
            new[line] = f"    value_{line} = compute({line}, 'other text', {line % 7})"
        spans.append((start, changed, start, changed))
    return [file_diff_of_hunks("blocks.py", old, new, spans)]


def file_diff_of_hunks(
    path: str, old: Sequence[str], new: Sequence[str], spans: Sequence[tuple[int, int, int, int]], first: int = 1
) -> FileDiff:
    """A diff whose hunks are given, for sizes at which difflib is too slow."""
    hunks = [
        Hunk(id=f"{path}-{number}", number=first + number, old_start=a, old_count=b, new_start=c, new_count=d)
        for number, (a, b, c, d) in enumerate(spans)
    ]
    return file_diff(
        path, "\n".join(old) + "\n" if old else None, "\n".join(new) + "\n" if new else None, hunks=hunks
    )
