"""What a commit says of who assisted and what was reviewed, as git itself reads it."""

import os
import subprocess
from collections.abc import Callable

import pytest

from app.proposals.decide.commit_trailers import commit_proposal, entry_trailers
from app.proposals.values.origin import Origin, OriginKind
from app.proposals.values.record_entries import ChainLink, RecordEntry, make_entry
from tests.unit.proposals.bench import Bench, numbered
from tests.unit.proposals.repositories import git, repository

Make = Callable[..., Bench]


def parsed(lines: list[str]) -> list[str]:
    """What git makes of a message with these trailers."""
    message = "\n".join(("A subject", "", *lines, "")).encode()
    done = subprocess.run(["git", "interpret-trailers", "--parse"], input=message, capture_output=True, check=True)
    return done.stdout.decode().splitlines()


def of(origin: Origin) -> RecordEntry:
    return RecordEntry(
        number=1, before="", time=0.0, who="", proposal="P7", count=1, content="", origin=origin, decision="approved"
    )


@pytest.mark.parametrize(
    ("origin", "assisted"),
    [
        (Origin(model="gpt-9"), "signoff:gpt-9"),
        (Origin(kind=OriginKind.COMMAND, model="gpt-9"), "signoff:gpt-9"),
        (Origin(kind=OriginKind.AGENT, agent="claude", model="claude-opus-5"), "claude-code:claude-opus-5"),
        (Origin(kind=OriginKind.AGENT, agent="codex"), "codex"),
        (Origin(kind=OriginKind.PATCH, ref="fix.patch"), ""),
        (Origin(kind=OriginKind.DISK), ""),
        (Origin(model="x\nSigned-off-by: A <a@b>\u2028y"), "signoff:x-Signed-off-by:-A-<a@b>-y"),
    ],
)
def test_who_assisted_is_said_in_the_form_of_the_kernel(origin: Origin, assisted: str) -> None:
    expected = [f"Assisted-by: {assisted}"] if assisted else []
    assert parsed(entry_trailers(of(origin))) == [*expected, "Reviewed-in: signoff P7"]


def test_a_part_and_what_the_user_edited_are_counted(bench: Make) -> None:
    site = bench({"a.txt": numbered(30)})
    proposal = site.edit("a.txt", ("line 3\n", "three\n"), ("line 14", "fourteen"), ("line 25", "twenty-five"))
    result = numbered(30).replace("line 3\n", "three\n").replace("line 14", "14").replace("line 25", "25")
    proposal = site.service.replace_result(proposal.id, "a.txt", result)
    done = site.service.approve(proposal.id, ["1", "5"]).proposal
    assert done.last is not None
    entry = make_entry(proposal, done, done.last, (), str, who="", after=ChainLink(), time=0.0)
    assert parsed(entry_trailers(entry))[-1] == "Reviewed-in: signoff P1 (2/3 hunks, 1 edited)"


def test_the_hooks_of_a_repository_run_and_learn_no_key(bench: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    site = bench({"a.txt": numbered(9)})
    repository(site)
    for name, value in (("user.name", "A"), ("user.email", "a@example.org")):
        git(site.root, "config", name, value)
    watcher = site.root.parent / "watcher"
    watcher.write_text(f"#!/bin/sh\ntouch {site.root.parent}/watched\n")
    watcher.chmod(0o755)
    git(site.root, "config", "core.fsmonitor", str(watcher))
    (site.root.parent / "watched").unlink(missing_ok=True)
    hook = site.root / ".git/hooks/pre-commit"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\nenv > {site.root.parent}/seen\n")
    hook.chmod(0o755)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret")
    monkeypatch.setenv("EDITOR", "vi")
    proposal = site.edit("a.txt", ("line 2", "two"))
    commit_proposal(site.root, site.service.approve(proposal.id).proposal)
    seen = (site.root.parent / "seen").read_text()
    assert "EDITOR=vi" in seen and "sk-very-secret" not in seen
    assert not (site.root.parent / "watched").exists()
    assert os.environ["OPENAI_API_KEY"] == "sk-very-secret"
