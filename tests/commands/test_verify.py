"""What `signoff verify` accepts and refuses, from git alone."""

import base64
import contextlib
import io
import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from app.attestation.review_notes import REVIEWS
from app.attestation.signed_statement import pre_authentication_encoding
from app.cli.main import main
from app.proposals.values.decision_facts import (
    UNKNOWN_CONTEXT,
    DecisionContext,
    HunkTestEvidence,
    HunkTestVerdict,
    RecordedTestEvidence,
)
from app.runtime.open_workspace import open_workspace

pytestmark = pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="ssh-keygen is not installed")

LINES = "".join(f"line {number}\n" for number in range(40))
POLICY = 'repository = "example"\nallowed_signers = "signers"\n'
POLICY_FILE = ".signoff/review-policy.toml"
PEOPLE = ("ann", "bob", "old", "eve")
"""The keys: two that are allowed, one that is not any more, one that never was."""


def git(root: Path, *words: str, data: bytes | None = None) -> str:
    done = subprocess.run(["git", "-C", str(root), *words], input=data, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.decode().strip()


def run(*words: str) -> tuple[int, str]:
    """Return the exit code of a command and all that it prints."""
    out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        code = main([*words])
    out.seek(0)
    return int(code), out.read()


@pytest.fixture(scope="session")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("keys")
    for name in PEOPLE:
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / name], check=True)
    return folder


class Project:
    """A repository with a policy, in which people review changes."""

    def __init__(self, root: Path, keys: Path) -> None:
        self.keys = keys
        begun = keys / f"project {os.environ.get('GIT_DEFAULT_HASH', '')}"
        if root.exists():
            self._begin(root)
        else:
            if not begun.exists():
                self._begin(begun)
            shutil.copytree(begun, root)
        self.root = root
        self.base = git(root, "rev-parse", "HEAD")

    def _begin(self, root: Path) -> None:
        self.root = root
        root.mkdir(exist_ok=True)
        git(root, "init", "--quiet", "--template=", "-b", "main")
        self.become("ann")
        git(self.root, "config", "gpg.format", "ssh")
        self.write("a.txt", LINES)
        self.write("b.txt", "b\n")
        self.write(POLICY_FILE, POLICY)
        self.write("signers", self.signers("ann", "bob") + self.signers("old", options='valid-before="20200101" '))
        self.commit("start")

    def signers(self, *names: str, options: str = "") -> str:
        return "".join(f"{name}@x.org {options}{(self.keys / f'{name}.pub').read_text()}" for name in names)

    def become(self, name: str) -> None:
        """Let somebody else work in the repository."""
        for key, value in (("user.name", name), ("user.email", f"{name}@x.org")):
            git(self.root, "config", key, value)
        git(self.root, "config", "user.signingkey", str(self.keys / name))

    def write(self, path: str, text: str) -> None:
        (self.root / path).parent.mkdir(exist_ok=True)
        (self.root / path).write_text(text)

    def read(self, path: str = "a.txt") -> str:
        return (self.root / path).read_text()

    def commit(self, subject: str, *more: str) -> str:
        git(self.root, "add", "--all")
        git(self.root, "commit", "--quiet", "-m", subject, *more)
        return git(self.root, "rev-parse", "HEAD")

    def review(
        self,
        subject: str,
        changes: dict[str, str | None],
        *,
        sign: bool = True,
        circumstances: DecisionContext = UNKNOWN_CONTEXT,
    ) -> str:
        """Stage changes, approve and commit them; the commit."""
        runtime = open_workspace(self.root, {}, {})
        draft = runtime.service.new_draft("s1")
        for path, text in changes.items():
            if text is None:
                draft.delete(path)
            else:
                draft.write(path, text)
        runtime.service.approve(runtime.service.stage(draft, subject).id, circumstances=circumstances)
        runtime.close()
        commit = self.commit(subject)
        if sign:
            assert run("notes")[0] == 0
        return commit

    def replace(self, old: str, new: str, subject: str = "change") -> str:
        return self.review(subject, {"a.txt": self.read().replace(f"{old}\n", f"{new}\n")})

    def verify(self, *words: str) -> tuple[int, str]:
        return run("verify", f"{self.base}..HEAD", *words)

    def envelopes(self) -> list[str]:
        """Return the ids of the signed statements."""
        listed = [line.split() for line in git(self.root, "notes", f"--ref={REVIEWS}", "list").splitlines()]
        return [blob for blob, key in listed if blob == key]

    def forge(self, change: Callable[[dict[str, Any]], None], sign: Callable[[bytes], bytes] | None = None) -> None:
        """Put another statement in the place of the only one, with its signature or with another."""
        [old] = self.envelopes()
        envelope = json.loads(git(self.root, "cat-file", "blob", old))
        statement = json.loads(base64.b64decode(envelope["payload"]))
        change(statement)
        payload = json.dumps(statement).encode()
        envelope["payload"] = base64.b64encode(payload).decode()
        if sign is not None:
            envelope["signatures"] = [{"sig": base64.b64encode(sign(pre_authentication_encoding(payload))).decode()}]
        new = git(self.root, "hash-object", "-w", "--stdin", data=json.dumps(envelope).encode())
        listed = [line.split() for line in git(self.root, "notes", f"--ref={REVIEWS}", "list").splitlines()]
        for blob, key in listed:
            if blob != key:
                text = git(self.root, "cat-file", "blob", blob).replace(old, new)
                git(self.root, "notes", f"--ref={REVIEWS}", "add", "-f", "-m", text, key)
        git(self.root, "notes", f"--ref={REVIEWS}", "add", "-f", "-C", new, new)
        git(self.root, "notes", f"--ref={REVIEWS}", "remove", old)

    def signature(self, name: str, namespace: str = "review@signoff") -> Callable[[bytes], bytes]:
        words = ["ssh-keygen", "-Y", "sign", "-n", namespace, "-f", str(self.keys / name)]
        return lambda data: subprocess.run(words, input=data, capture_output=True, check=True).stdout

    def set_policy(self, text: str) -> None:
        self.write(POLICY_FILE, text)
        self.base = self.commit("policy")


@pytest.fixture
def project(tmp_path: Path, keys: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.setenv("SIGNOFF_HOME", str(tmp_path / "home"))
    project = Project(tmp_path / "ws", keys)
    monkeypatch.chdir(project.root)
    return project


def amend(project: Project) -> None:
    git(project.root, "add", "--all")
    git(project.root, "commit", "--quiet", "--amend", "-m", "amended")


def a_line_slipped_in(project: Project) -> None:
    project.replace("line 3", "three")
    project.write("a.txt", project.read() + "more\n")
    amend(project)


def a_line_slipped_into_the_reviewed_hunk(project: Project) -> None:
    project.replace("line 3", "three")
    project.write("a.txt", project.read().replace("three\n", "three\nevil\n"))
    amend(project)


def a_file_slipped_in(project: Project) -> None:
    project.replace("line 3", "three")
    project.write("c.txt", "c\n")
    amend(project)


def a_file_removed(project: Project) -> None:
    project.replace("line 3", "three")
    (project.root / "b.txt").unlink()
    amend(project)


def a_mode_changed(project: Project) -> None:
    project.replace("line 3", "three")
    (project.root / "a.txt").chmod(0o755)
    amend(project)


def a_file_renamed(project: Project) -> None:
    project.replace("line 3", "three")
    git(project.root, "mv", "a.txt", "c.txt")
    amend(project)


def a_link_in_its_place(project: Project) -> None:
    project.review("a file", {"c.txt": "a.txt"})
    (project.root / "c.txt").unlink()
    (project.root / "c.txt").symlink_to("a.txt")
    amend(project)


def a_submodule_added(project: Project) -> None:
    project.replace("line 3", "three")
    git(project.root, "update-index", "--add", "--cacheinfo", f"160000,{project.base},sub")
    git(project.root, "commit", "--quiet", "--amend", "-m", "amended")


def a_statement_forged(project: Project) -> None:
    project.review("new", {"c.txt": "c\n"})
    project.write("c.txt", "evil\n")
    amend(project)
    blob = git(project.root, "rev-parse", "HEAD:c.txt")

    def change(statement: dict[str, Any]) -> None:
        statement["predicate"]["reviews"][0]["files"][0]["result"] = blob

    project.forge(change)


def a_statement_of_a_key_that_is_not_allowed(project: Project) -> None:
    project.become("eve")
    project.replace("line 3", "three")


def a_statement_of_a_key_that_has_expired(project: Project) -> None:
    project.become("old")
    project.replace("line 3", "three")


def a_statement_signed_for_another_purpose(project: Project) -> None:
    project.replace("line 3", "three")
    project.forge(lambda statement: None, project.signature("ann", "git"))


def a_statement_copied_to_another_commit(project: Project) -> None:
    project.replace("line 3", "three")
    project.write("b.txt", "evil\n")
    project.commit("another")
    git(project.root, "notes", "--ref=signoff", "copy", "HEAD~1", "HEAD")


def statements_dropped(project: Project) -> None:
    project.replace("line 3", "three")
    git(project.root, "update-ref", "-d", REVIEWS)


def reviews_in_another_order(project: Project) -> None:
    project.replace("line 3", "three")
    second = project.replace("three", "four")
    text = project.read()
    git(project.root, "reset", "--quiet", "--hard", project.base)
    project.write("a.txt", text)
    project.commit("the second first")
    git(project.root, "checkout", "--quiet", f"{second}~1", "--", "a.txt")
    project.commit("and then the first")


def a_review_replayed_from_another_repository(project: Project) -> None:
    other = project.root.parent / "other"
    shutil.copytree(project.root, other)
    git(other, "config", "user.name", "ann")
    (other / POLICY_FILE).write_text(POLICY.replace("example", "elsewhere"))
    git(other, "commit", "--quiet", "--all", "-m", "named")
    there = Path.cwd()
    os.chdir(other)
    root, project.root = project.root, other
    project.replace("line 3", "three")
    os.chdir(there)
    project.root = root
    git(root, "fetch", "--quiet", str(other), f"{REVIEWS}:{REVIEWS}")
    project.write("a.txt", project.read().replace("line 3\n", "three\n"))
    project.commit("replayed")


def the_policy_changed_in_the_range(project: Project) -> None:
    project.write(POLICY_FILE, POLICY + "people = 0\n")
    project.commit("policy")
    project.write("a.txt", "evil\n")
    project.commit("evil")


def the_signers_changed_in_the_range(project: Project) -> None:
    project.write("signers", project.signers("ann", "eve"))
    project.commit("signers")
    project.become("eve")
    project.replace("line 3", "three")


def a_line_slipped_into_a_merge(project: Project) -> None:
    git(project.root, "checkout", "--quiet", "-b", "side")
    project.replace("line 30", "thirty")
    git(project.root, "checkout", "--quiet", "main")
    project.replace("line 3", "three")
    git(project.root, "merge", "--quiet", "--no-ff", "--no-commit", "side")
    project.write("b.txt", "evil\n")
    project.commit("merge")


def a_reviewed_change_dropped_in_a_merge(project: Project) -> None:
    git(project.root, "checkout", "--quiet", "-b", "side")
    project.replace("line 30", "thirty")
    git(project.root, "checkout", "--quiet", "main")
    project.replace("line 3", "three")
    git(project.root, "merge", "--quiet", "--strategy=ours", "side", "-m", "merge")


def what_was_approved_undone(project: Project) -> None:
    project.replace("line 3", "three")
    git(project.root, "revert", "--no-edit", "HEAD")


def a_key_under_two_names(project: Project) -> None:
    project.replace("line 3", "three")
    text = project.read()
    project.forge(lambda statement: None, project.signature("ann"))
    assert run("notes")[0] == 0
    git(project.root, "reset", "--quiet", "--hard", project.base)
    project.write("signers", project.signers("ann") + f"anna@x.org {(project.keys / 'ann.pub').read_text()}")
    project.set_policy(POLICY + "people = 2\n")
    project.write("a.txt", text)
    project.commit("three")


TAMPERING = (
    a_line_slipped_in,
    a_line_slipped_into_the_reviewed_hunk,
    a_file_slipped_in,
    a_file_removed,
    a_mode_changed,
    a_file_renamed,
    a_link_in_its_place,
    a_submodule_added,
    a_statement_forged,
    a_statement_of_a_key_that_is_not_allowed,
    a_statement_of_a_key_that_has_expired,
    a_statement_signed_for_another_purpose,
    a_statement_copied_to_another_commit,
    statements_dropped,
    reviews_in_another_order,
    a_review_replayed_from_another_repository,
    the_policy_changed_in_the_range,
    the_signers_changed_in_the_range,
    a_line_slipped_into_a_merge,
    a_reviewed_change_dropped_in_a_merge,
    what_was_approved_undone,
    a_key_under_two_names,
)


@pytest.mark.parametrize("tamper", TAMPERING, ids=lambda tamper: tamper.__name__)
def test_tampering_is_refused(project: Project, tamper: Callable[[Project], None]) -> None:
    tamper(project)
    code, said = project.verify()
    assert code == 3, said
    assert "not reviewed" in said or "which no review covers" in said


def plain(project: Project) -> None:
    project.replace("line 3", "three")
    project.review("more", {"c.txt": "c\n", "b.txt": None})
    project.replace("three", "four")


def amended(project: Project) -> None:
    plain(project)
    git(project.root, "commit", "--quiet", "--amend", "-m", "other words")


def rebased(project: Project) -> None:
    git(project.root, "checkout", "--quiet", "-b", "side")
    plain(project)
    git(project.root, "checkout", "--quiet", "main")
    project.replace("line 30", "thirty")
    project.base = git(project.root, "rev-parse", "HEAD")
    git(project.root, "checkout", "--quiet", "side")
    git(project.root, "rebase", "--quiet", "main")


def squashed(project: Project) -> None:
    plain(project)
    git(project.root, "reset", "--quiet", "--soft", project.base)
    git(project.root, "commit", "--quiet", "-m", "all in one")


def squashed_with_a_removal(project: Project) -> None:
    project.review("more", {"b.txt": "b\nb\n"})
    project.review("less", {"b.txt": None})
    git(project.root, "reset", "--quiet", "--soft", project.base)
    git(project.root, "commit", "--quiet", "-m", "all in one")


def picked_where_both_sides_have_changed(project: Project) -> None:
    git(project.root, "checkout", "--quiet", "-b", "side")
    project.replace("line 20", "twenty")
    git(project.root, "checkout", "--quiet", "main")
    for line in ("line 18", "line 23"):
        project.write("a.txt", project.read().replace(f"{line}\n", "landed\n"))
    project.base = project.commit("landed")
    git(project.root, "cherry-pick", "side")


def picked(project: Project) -> None:
    git(project.root, "checkout", "--quiet", "-b", "side")
    project.replace("line 3", "three")
    git(project.root, "checkout", "--quiet", "main")
    project.replace("line 30", "thirty")
    git(project.root, "cherry-pick", "side")


def merged(project: Project) -> None:
    git(project.root, "checkout", "--quiet", "-b", "side")
    project.replace("line 3", "three")
    git(project.root, "checkout", "--quiet", "main")
    project.replace("line 30", "thirty")
    git(project.root, "merge", "--quiet", "--no-ff", "side", "-m", "merge")


def merged_with_a_reviewed_resolution(project: Project) -> None:
    git(project.root, "checkout", "--quiet", "-b", "side")
    project.replace("line 3", "three")
    git(project.root, "checkout", "--quiet", "main")
    project.replace("line 3", "drei")
    project.base = git(project.root, "rev-parse", "HEAD")
    subprocess.run(["git", "merge", "--quiet", "side"], cwd=project.root, capture_output=True, check=False)
    git(project.root, "checkout", "--ours", "a.txt")
    project.replace("drei", "three or drei", "merge")


def committed_in_parts(project: Project) -> None:
    text = project.read()
    project.review("both", {"a.txt": text.replace("line 3\n", "three\n").replace("line 30\n", "thirty\n")})
    whole = project.read()
    git(project.root, "reset", "--quiet", "--hard", project.base)
    project.write("a.txt", text.replace("line 3\n", "three\n"))
    project.commit("one hunk")
    project.write("a.txt", whole)
    project.commit("the other")


def an_empty_commit(project: Project) -> None:
    plain(project)
    git(project.root, "commit", "--quiet", "--allow-empty", "-m", "nothing")


@pytest.mark.parametrize(
    "change",
    [
        plain,
        amended,
        rebased,
        squashed,
        squashed_with_a_removal,
        picked,
        picked_where_both_sides_have_changed,
        merged,
        merged_with_a_reviewed_resolution,
        committed_in_parts,
        an_empty_commit,
    ],
    ids=lambda change: change.__name__,
)
def test_reviewed_commits_are_accepted_after_git_rewrites(
    project: Project, change: Callable[[Project], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    change(project)
    # In a fresh clone, without anything of signoff's.
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "--quiet", "--bare", str(project.root), str(clone / ".git"))
    git(clone / ".git", "config", "core.bare", "false")
    git(clone / ".git", "fetch", "--quiet", "origin", f"{REVIEWS}:{REVIEWS}")
    monkeypatch.setenv("SIGNOFF_HOME", str(tmp_path / "none"))
    monkeypatch.chdir(clone)
    code, said = project.verify()
    assert code == 0, said
    assert "ann@x.org" in said
    assert not (tmp_path / "none").exists()


def test_reviews_signed_in_two_clones_are_merged(project: Project, tmp_path: Path) -> None:
    project.replace("line 3", "three")
    policy = tmp_path / "policy.toml"
    policy.write_text(POLICY + "people = 2\n")
    assert project.verify("--policy", str(policy))[0] == 3
    git(project.root, "update-ref", "refs/notes/ann", REVIEWS)
    git(project.root, "update-ref", "-d", REVIEWS)
    project.become("bob")
    assert run("notes")[0] == 0
    git(project.root, "notes", f"--ref={REVIEWS}", "merge", "--strategy=cat_sort_uniq", "refs/notes/ann")
    code, said = project.verify("--policy", str(policy))
    assert code == 0, said
    assert "ann@x.org" in said
    assert "bob@x.org" in said


def test_the_policy_of_the_base_commit_decides(project: Project) -> None:
    start = project.base
    project.replace("line 3", "three")
    text = project.read()
    for policy, code in (
        ("unseen_lines = 0\n", 3),
        ('checks = ["tests"]\n', 3),
        ('commits = "agents"\n', 0),
        ('commits = "agents"\nagents = ["ann *"]\n', 0),
        ("author_counts = false\n", 3),
        ('[[paths]]\nmatch = ["*.txt"]\npeople = 2\n', 3),
        ('people = 2\n[[paths]]\nmatch = ["a.*"]\npeople = 1\n', 0),
        ("rebased = false\n", 0),
    ):
        git(project.root, "reset", "--quiet", "--hard", start)
        project.set_policy(POLICY + policy)
        project.write("a.txt", text)
        project.commit("three")
        found, said = project.verify()
        assert found == code, (policy, said)


def test_an_invalid_policy_is_reported_in_one_line(project: Project) -> None:
    for policy in ("unknown = 1\n", "people = \n", 'allowed_signers = "none"\n'):
        project.set_policy(policy)
        project.write("b.txt", policy)
        project.commit("x")
        code, said = project.verify()
        assert code == 1
        assert len(said.splitlines()) == 1
        assert "policy" in said


def test_unreviewed_commits_are_listed_as_json(project: Project) -> None:
    project.replace("line 3", "three")
    project.write("b, c%.txt", "x\n")
    project.write("a.txt", project.read().replace("line 30\n", "evil\n"))
    amend(project)
    commit = git(project.root, "rev-parse", "--short=7", "HEAD")
    said = project.verify("--format", "github")[1]
    assert f"::error file=a.txt,line=31,title=Not reviewed::{commit}: 1 of 2 hunks not reviewed." in said
    assert f"::error file=b%2C c%25.txt,title=Not reviewed::{commit}: a new file not reviewed." in said
    found = json.loads(project.verify("--format", "sarif")[1])["runs"][0]["results"]
    places = [result["locations"][0]["physicalLocation"] for result in found]
    assert places[0] == {"artifactLocation": {"uri": "a.txt"}, "region": {"startLine": 31}}
    assert places[1] == {"artifactLocation": {"uri": "b%2C%20c%25.txt"}, "region": {"startLine": 1}}
    badge = json.loads(project.verify("--format", "badge")[1])
    assert (badge["message"], badge["color"]) == ("0 of 1 commit", "red")
    document = json.loads(project.verify("--json")[1])
    first, second = document["commits"][0]["files"]
    assert (first["lines"], second["lines"]) == ([31], [])
    assert [(hunk["line"], hunk["covered"], len(hunk["reviews"])) for hunk in first["hunks"]] == [
        (4, True, 1),
        (31, False, 0),
    ]
    said = project.verify()[1]
    assert "a.txt: 1 of 2 hunks (line 31) not reviewed; line 4 by ann@x.org at " in said


def test_evidence_of_each_hunk_is_signed_with_the_review(project: Project) -> None:
    mark = HunkTestEvidence(path="a.txt", hunk=1, verdict=HunkTestVerdict.HELD, tests=("t.py::test_a",), count=1)
    fact = RecordedTestEvidence(check="tests", selection="all tests of the check", tree="", hunks=(mark,))
    changed: dict[str, str | None] = {"a.txt": project.read().replace("one\n", "two\n") + "more\n"}
    project.review("change", changed, circumstances=DecisionContext(through="app", evidence=fact))
    code, said = project.verify("--json")
    assert code == 0
    (commit,) = json.loads(said)["commits"]
    (reviewer,) = commit["files"][0]["reviews"]
    assert reviewer["review"]["evidence"] == [
        {"path": "a.txt", "hunk": 1, "verdict": "held", "tests": ["t.py::test_a"], "check": "tests"}
    ]


def test_the_record_checks_the_signed_statements(project: Project) -> None:
    project.replace("line 3", "three")
    code, said = run("log", "--verify")
    assert code == 0, said
    assert "1 signed statement in git's notes: good" in said
    project.forge(lambda statement: statement["predicate"]["reviews"][0].update(reviewer="bob <bob@x.org>"))
    git(project.root, "update-ref", "refs/notes/origin/signoff-reviews", REVIEWS)
    git(project.root, "update-ref", "-d", REVIEWS)
    code, said = run("log", "--verify")
    assert code == 3
    assert "no allowed key signed it" in said


def test_fetched_notes_count_and_are_merged(project: Project, tmp_path: Path) -> None:
    project.replace("line 3", "three")
    git(project.root, "update-ref", "refs/notes/origin/signoff-reviews", REVIEWS)
    git(project.root, "update-ref", "-d", REVIEWS)
    assert project.verify()[0] == 0
    project.replace("line 30", "thirty")
    git(project.root, "update-ref", "-d", "refs/notes/origin/signoff-reviews")
    assert project.verify()[0] == 0


def test_an_author_may_sign_a_commit_instead(project: Project) -> None:
    project.set_policy(POLICY + 'handwritten = "signature"\n')
    project.write("b.txt", "by hand\n")
    project.commit("by hand", "--gpg-sign")
    assert project.verify()[0] == 0
    project.write("b.txt", "by an agent\n")
    project.commit("by an agent\n\nAssisted-by: agent:model", "--gpg-sign")
    assert project.verify()[0] == 3
    git(project.root, "reset", "--quiet", "--hard", "HEAD~1")
    project.write("b.txt", "by hand again\n")
    project.commit("signed by another", "--gpg-sign", "--author=bob <bob@x.org>")
    assert project.verify()[0] == 3


def test_a_statement_contains_only_the_decisions_of_its_commits(project: Project) -> None:
    for number in range(4):
        project.replace(f"line {number}", "x")
    sizes = [git(project.root, "cat-file", "-s", name) for name in project.envelopes()]
    assert max(map(int, sizes)) < 1.2 * min(map(int, sizes))
    assert project.verify()[0] == 0


def test_a_range_of_commits_is_signed_in_one_statement(project: Project) -> None:
    project.review("one", {"a.txt": "one\n"}, sign=False)
    project.review("two", {"b.txt": "two\n"}, sign=False)
    code, said = run("notes", f"{project.base}..HEAD")
    assert code == 0, said
    assert "2 commits" in said
    assert len(project.envelopes()) == 1
    assert project.verify()[0] == 0


def test_verifying_nothing_is_not_a_success(project: Project) -> None:
    for words in (("HEAD..HEAD",), ("nowhere",), ("HEAD", "--at", "soon"), ("--policy", "none.toml")):
        code, said = run("verify", *words)
        assert code in (1, 2)
        assert len(said.splitlines()) == 1


def test_a_shallow_clone_is_reported(project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain(project)
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "--quiet", "--depth=2", f"file://{project.root}", str(clone))
    git(clone, "fetch", "--quiet", "origin", f"{REVIEWS}:{REVIEWS}")
    monkeypatch.chdir(clone)
    assert run("verify", "HEAD~1..HEAD")[0] == 0
    code, said = run("verify", "HEAD~1")
    assert code == 1
    assert "shallow" in said


def test_oversized_notes_are_refused_in_one_line(project: Project) -> None:
    project.replace("line 3", "three")
    keys = [line.split()[1] for line in git(project.root, "notes", f"--ref={REVIEWS}", "list").splitlines()]
    for text in (b"x" * (17 << 20), b"".join(b"%040x\n" % number for number in range(150_000))):
        blob = git(project.root, "hash-object", "-w", "--stdin", data=text)
        for key in keys:
            git(project.root, "notes", f"--ref={REVIEWS}", "add", "-f", "-C", blob, key)
        code, said = project.verify()
        assert code == 1
        assert len(said.splitlines()) == 1


def test_an_invalid_note_covers_nothing(project: Project) -> None:
    project.replace("line 3", "three")
    keys = [line.split()[1] for line in git(project.root, "notes", f"--ref={REVIEWS}", "list").splitlines()]
    for text in (b"[" * 100_000, b"\xff\x1b[31m", b'{"payload": "", "signatures": []}', b"../x\n"):
        blob = git(project.root, "hash-object", "-w", "--stdin", data=text)
        for key in keys:
            git(project.root, "notes", f"--ref={REVIEWS}", "add", "-f", "-m", f"../x\nHEAD\n{blob}", key)
        code, said = project.verify()
        assert code == 3
        assert "\x1b" not in said


def test_control_characters_in_names_are_made_visible(project: Project) -> None:
    project.replace("line 3", "three")
    project.write("\x1b[31mred\n✓ a.txt: reviewed", "x\n")
    project.commit("\x1b[2J cleared")
    code, said = project.verify()
    assert code == 3
    assert "\x1b" not in said
    assert "\n✓ a.txt: reviewed" not in said


def test_setup_lets_git_push_the_notes(project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server = tmp_path / "server.git"
    git(tmp_path, "clone", "--quiet", "--bare", str(project.root), str(server))
    git(project.root, "remote", "add", "origin", str(server))
    hook = project.root / ".git/hooks/post-commit"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\ntouch .git/mine\n")
    hook.chmod(0o755)
    code, said = run("notes", "--install")
    assert code == 0
    assert "+signoff notes --if-reviewed || true" in said
    assert "Nothing is written yet" in said
    assert "signoff" not in hook.read_text() + (project.root / ".git/config").read_text()
    assert run("notes", "--install", "--yes")[0] == 0
    assert "nothing was changed" in run("notes", "--install", "--yes")[1]
    project.review("by the hook", {"a.txt": "one\n"}, sign=False)
    assert (project.root / ".git/mine").exists()
    assert project.verify()[0] == 0
    git(project.root, "push", "--quiet")
    # Somebody else's notes come meanwhile.
    other = tmp_path / "other"
    git(tmp_path, "clone", "--quiet", str(server), str(other))
    git(other, "fetch", "--quiet", "origin", f"{REVIEWS}:{REVIEWS}")
    monkeypatch.chdir(other)
    for key in ("gpg.format", "user.name", "user.email", "user.signingkey"):
        git(other, "config", key, git(project.root, "config", key))
    there = Project.__new__(Project)
    there.root = other
    there.review("theirs", {"c.txt": "c\n"})
    git(other, "push", "--quiet", "origin", "HEAD", REVIEWS)
    monkeypatch.chdir(project.root)
    git(project.root, "fetch", "--quiet")
    git(project.root, "reset", "--quiet", "--hard", "origin/main")
    assert project.verify()[0] == 0
    project.write("b.txt", "by hand\n")
    project.commit("by hand")
    git(project.root, "push", "--quiet")
    project.base = git(project.root, "rev-parse", "HEAD")
    project.review("mine again", {"a.txt": "two\n"}, sign=False)
    git(project.root, "push", "--quiet")
    assert project.verify()[0] == 0


def test_a_hook_that_is_no_shell_script_is_kept(project: Project) -> None:
    hook = project.root / ".git/hooks/post-commit"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/usr/bin/python3\n")
    code, said = run("notes", "--install", "--yes")
    assert code == 3
    assert "is no shell script" in said
    assert hook.read_text() == "#!/usr/bin/python3\n"


def test_the_documented_server_hook_accepts_only_reviewed_commits(project: Project, tmp_path: Path) -> None:
    text = (Path(__file__).resolve().parents[2] / "docs/verify.md").read_text()
    script = text.partition("## On your own server")[2].partition("```sh\n")[2].partition("```")[0]
    server = tmp_path / "server.git"
    git(tmp_path, "clone", "--quiet", "--bare", str(project.root), str(server))
    hook = server / "hooks/pre-receive"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(script)
    hook.chmod(0o755)

    def push(*references: str) -> subprocess.CompletedProcess[bytes]:
        words = ["git", "-C", str(project.root), "push", "--quiet", str(server), *references]
        return subprocess.run(words, capture_output=True, check=False)

    project.replace("line 3", "three")
    refused = push("main")
    assert refused.returncode != 0
    assert b"a.txt: its change" in refused.stderr
    assert push("main", REVIEWS).returncode == 0
    project.write("b.txt", "evil\n")
    project.commit("evil")
    assert push("main", REVIEWS).returncode != 0
    assert push(":main").returncode != 0
    assert git(server, "rev-parse", "main~1") == project.base


@pytest.mark.parametrize("forge", ["GitHub", "GitLab"])
def test_the_documented_forge_workflow_verifies_a_request(project: Project, tmp_path: Path, forge: str) -> None:
    text = (Path(__file__).resolve().parents[2] / "docs/verify.md").read_text()
    lines = text.partition(f"## On {forge}")[2].partition("```yaml\n")[2].partition("```")[0]
    if forge == "GitHub":
        script = "\n".join(line.strip() for line in lines.partition("run: |\n")[2].splitlines())
    else:
        script = lines.partition("script:\n")[2].replace("\n      ", " ").replace("    - ", "")
    project.replace("line 3", "three")
    commit = git(project.root, "rev-parse", "HEAD")
    fork, server, job = (tmp_path / name for name in ("fork.git", "server.git", "job"))
    for bare in (fork, server):
        git(tmp_path, "clone", "--quiet", "--bare", str(project.root), str(bare))
    git(project.root, "push", "--quiet", str(fork), REVIEWS)
    git(server, "update-ref", "refs/pull/1/head", commit)
    git(server, "update-ref", "refs/heads/main", project.base)
    git(tmp_path, "clone", "--quiet", f"file://{server}", str(job))
    git(job, "fetch", "--quiet", "origin", "refs/pull/1/head")
    program = tmp_path / "bin/uvx"
    program.parent.mkdir()
    program.write_text('#!/bin/sh\nshift 2\nexec "$@"\n')
    program.chmod(0o755)
    values = {
        "PATH": f"{program.parent}:{os.environ['PATH']}",
        "HOME": str(tmp_path),
        "SIGNOFF": "signoff",
        "FORK": f"file://{fork}",
        "PULL": "refs/pull/1/head",
        "RANGE": f"origin/main..{commit}",
        "CI_MERGE_REQUEST_TARGET_BRANCH_NAME": "main",
        "CI_MERGE_REQUEST_SOURCE_PROJECT_URL": f"file://{tmp_path}/fork",
        "CI_COMMIT_SHA": commit,
    }

    def verify() -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(["sh", "-e", "-c", script], cwd=job, env=values, capture_output=True, check=False)

    done = verify()
    assert done.returncode == 0, done.stderr
    assert b"1 commit covered" in done.stdout
    git(job, "update-ref", "-d", "refs/notes/fork/signoff-reviews")
    git(fork, "update-ref", "-d", REVIEWS)
    done = verify()
    assert done.returncode == 3, done.stderr
    assert b"not reviewed" in done.stdout


def test_staging_names_earlier_approvals(project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server = tmp_path / "server.git"
    git(tmp_path, "clone", "--quiet", "--bare", str(project.root), str(server))
    git(project.root, "remote", "add", "origin", str(server))
    runtime = open_workspace(project.root, {}, {})
    draft = runtime.service.new_draft("s1")
    draft.write("a.txt", "one\n")
    runtime.service.approve(runtime.service.stage(draft, "one").id)
    runtime.close()
    code, said = run("push", "P1")
    assert code == 0, said
    assert "Your signed review went with it." in said
    other = tmp_path / "other"
    git(tmp_path, "clone", "--quiet", str(server), str(other))
    git(other, "fetch", "--quiet", "origin", f"{REVIEWS}:{REVIEWS}")
    monkeypatch.chdir(other)
    code, said = run("stage", "--from", "origin", "signoff/P1")
    assert code == 0, said
    assert "Approved before: a.txt: ann@x.org (P1, 1/1 hunks)" in said


def test_two_approvers_are_required(project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project.set_policy(POLICY + "[[paths]]\nmatch = ['a.*']\npeople = 2\n")
    server, other = tmp_path / "server.git", tmp_path / "other"
    git(tmp_path, "clone", "--quiet", "--bare", str(project.root), str(server))
    git(tmp_path, "clone", "--quiet", str(server), str(other))
    runtime = open_workspace(project.root, {}, {})
    draft = runtime.service.new_draft("s1")
    draft.write("a.txt", "one\n")
    runtime.service.stage(draft, "one")
    runtime.close()
    code, said = run("approve", "P1")
    assert code != 0
    assert "asks for 2 people on a.txt: 1 other person must approve this change first" in said
    assert project.read() == LINES
    assert run("push", "P1", str(server), "--sign")[0] == 0
    # One's own signature does not make one two.
    assert run("approve", "P1")[0] != 0
    project.root = other
    monkeypatch.chdir(other)
    project.become("bob")
    git(other, "config", "gpg.format", "ssh")
    assert run("stage", "--from", "origin", "signoff/P1")[0] == 0
    assert run("approve", "P1")[0] != 0
    git(other, "fetch", "--quiet", "origin", f"{REVIEWS}:{REVIEWS}")
    code, said = run("approve", "P1")
    assert code == 0, said
    assert project.read() == "one\n"
    project.commit("one")
    assert run("notes")[0] == 0
    assert project.verify()[0] == 0


@pytest.mark.layer
def test_a_signed_statement_contains_unseen_lines_and_check_results(project: Project, tmp_path: Path) -> None:
    server = tmp_path / "server.git"
    git(tmp_path, "clone", "--quiet", "--bare", str(project.root), str(server))
    settings = tmp_path / "home/config/config.toml"
    settings.parent.mkdir(parents=True)
    settings.write_text('[[check]]\nname = "tests"\nrun = "! grep -q two a.txt"\nwhen = "approve"\n')
    runtime = open_workspace(project.root, {}, {})
    for text in ("two\n", "one\n"):
        draft = runtime.service.new_draft("s1")
        draft.write("a.txt", text)
        [change] = runtime.service.stage(draft, text).files
        if text == "two\n":
            code, said = run("push", "P1", str(server), "--sign")
            assert code == 3
            assert "P1 is not signed: tests" in said
            assert not project.envelopes()
            assert run("deny", "P1")[0] == 0
    seen = {hunk.id: bytes([1] * (hunk.old_count + hunk.new_count)) for hunk in change.hunks}
    runtime.seen_lines_store.add_seen({"P2": seen})
    runtime.close()
    code, said = run("push", "P2", str(server), "--sign")
    assert code == 0, said
    [envelope] = project.envelopes()
    payload = json.loads(git(project.root, "cat-file", "blob", envelope))["payload"]
    [review] = json.loads(base64.b64decode(payload))["predicate"]["reviews"]
    assert review["unseenLines"] == 0
    assert [(one["name"], one["state"]) for one in review["checks"]] == [("tests", "passed")]


def test_with_the_setting_each_approval_is_committed_and_signed(project: Project, tmp_path: Path) -> None:
    (tmp_path / "home/config").mkdir(parents=True)
    (tmp_path / "home/config/config.toml").write_text("commit = true\n")
    code, said = run("notes", "--install", "--yes")
    assert code == 0, said
    runtime = open_workspace(project.root, {}, {})
    for path in ("a.txt", "b.txt"):
        draft = runtime.service.new_draft("s1")
        draft.write(path, "one\n")
        runtime.service.stage(draft, path)
    runtime.close()
    assert run("approve", "P1", "P2")[0] == 0
    assert len(project.envelopes()) == 2
    code, said = project.verify()
    assert code == 0, said
