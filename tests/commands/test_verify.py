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

from app.attestation import review_notes
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
DOCUMENTATION = (Path(__file__).resolve().parents[2] / "docs/verify.md").read_text()


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


def exits(code: int, *words: str) -> str:
    """Return all that a command prints, which exits with this code."""
    found, said = run(*words)
    assert found == code, said
    return said


@pytest.fixture(scope="session")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The keys of ann and bob, who may sign, of old, who may no longer, and of eve, who never might."""
    folder = tmp_path_factory.mktemp("keys")
    for name in ("ann", "bob", "old", "eve"):
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
        self.git("init", "--quiet", "--template=", "-b", "main")
        self.become("ann")
        self.git("config", "gpg.format", "ssh")
        self.write("a.txt", LINES)
        self.write("b.txt", "b\n")
        self.write(POLICY_FILE, POLICY)
        self.write("signers", self.signers("ann", "bob") + self.signers("old", options='valid-before="20200101" '))
        self.commit("start")

    def git(self, *words: str, data: bytes | None = None) -> str:
        return git(self.root, *words, data=data)

    def signers(self, *names: str, options: str = "") -> str:
        return "".join(f"{name}@x.org {options}{(self.keys / f'{name}.pub').read_text()}" for name in names)

    def become(self, name: str) -> None:
        for key, value in (("user.name", name), ("user.email", f"{name}@x.org")):
            self.git("config", key, value)
        self.git("config", "user.signingkey", str(self.keys / name))

    def switch(self, branch: str, start: str = "") -> None:
        """Go to a branch, a new one if it has a start."""
        self.git("checkout", "--quiet", *(("-B", branch, start) if start else (branch,)))

    def write(self, path: str, text: str) -> int:
        (self.root / path).parent.mkdir(exist_ok=True)
        return (self.root / path).write_text(text)

    def read(self, path: str = "a.txt") -> str:
        return (self.root / path).read_text()

    def commit(self, subject: str, *more: str, **files: str) -> str:
        """Commit all changes, and these texts in files whose names end with `.txt`."""
        for name, text in files.items():
            self.write(f"{name}.txt", text)
        self.git("add", "--all")
        self.git("commit", "--quiet", "-m", subject, *more)
        return self.git("rev-parse", "HEAD")

    def amend(self, **files: str) -> str:
        return self.commit("amended", "--amend", **files)

    def stage(self, path: str, text: str) -> str:
        runtime = open_workspace(self.root, {}, {})
        draft = runtime.service.new_draft("s1")
        draft.write(path, text)
        name = runtime.service.stage(draft, path).id
        runtime.close()
        return name

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

    def replace_on(self, branch: str, old: str, new: str) -> str:
        """Review a change on a new branch from the base, and go back to main."""
        self.switch(branch, self.base)
        commit = self.replace(old, new)
        self.switch("main")
        return commit

    def verify(self, *words: str) -> tuple[int, str]:
        return run("verify", f"{self.base}..HEAD", *words)

    def verifies(self, code: int, *words: str) -> str:
        """Return what `verify` prints, which exits with this code."""
        return exits(code, "verify", f"{self.base}..HEAD", *words)

    def refuses(self, *words: str) -> bool:
        code, said = self.verify(*words)
        return code == 3 and ("not reviewed" in said or "which no review covers" in said)

    def clone(self, name: str, *options: str) -> Path:
        folder = self.root.parent / name
        git(folder.parent, "clone", "--quiet", *options, f"file://{self.root}", str(folder))
        return folder

    def notes(self) -> list[list[str]]:
        """Return the ids of each note and of what it is about."""
        return [line.split() for line in self.git("notes", f"--ref={REVIEWS}", "list").splitlines()]

    def note(self, key: str, *content: str) -> None:
        """Put a note in the place of another, if there is one."""
        self.git("notes", f"--ref={REVIEWS}", "add", "-f", *content, key)

    def hash(self, data: bytes, *options: str) -> str:
        return self.git("hash-object", "-w", *options, "--stdin", data=data)

    def blob(self, path: str) -> str:
        return self.git("rev-parse", f"HEAD:{path}")

    def move_notes(self, reference: str) -> None:
        """Let the notes be those that were fetched from somewhere."""
        self.git("update-ref", reference, REVIEWS)
        self.git("update-ref", "-d", REVIEWS)

    def envelopes(self) -> list[str]:
        """Return the ids of the signed statements."""
        return [blob for blob, key in self.notes() if blob == key]

    def forge(self, change: Callable[[dict[str, Any]], None], sign: Callable[[bytes], bytes] | None = None) -> str:
        """Put another statement in the place of the only one, with its signature or with another."""
        [old] = self.envelopes()
        envelope = json.loads(self.git("cat-file", "blob", old))
        statement = json.loads(base64.b64decode(envelope["payload"]))
        change(statement)
        payload = json.dumps(statement).encode()
        envelope["payload"] = base64.b64encode(payload).decode()
        if sign is not None:
            envelope["signatures"] = [{"sig": base64.b64encode(sign(pre_authentication_encoding(payload))).decode()}]
        new = self.hash(json.dumps(envelope).encode())
        for blob, key in self.notes():
            if blob != key:
                self.note(key, "-m", self.git("cat-file", "blob", blob).replace(old, new))
        self.note(new, "-C", new)
        return self.git("notes", f"--ref={REVIEWS}", "remove", old)

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


@pytest.fixture
def reviewed(project: Project, keys: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    """With a signed review of line 3, made elsewhere."""
    if not (keys / "reviewed").exists():
        project.replace("line 3", "three")
        project.root.rename(keys / "reviewed")
    else:
        shutil.rmtree(project.root)
    shutil.copytree(keys / "reviewed", project.root)
    shutil.rmtree(project.root.parent / "home", ignore_errors=True)
    monkeypatch.chdir(project.root)
    return project


def cases(namespace: dict[str, Any], prefix: str) -> pytest.MarkDecorator:
    """Return the mark for a test of each function of a module whose name has a prefix."""
    found = {name: each for name, each in namespace.items() if name.startswith(prefix)}
    return pytest.mark.parametrize(prefix.rstrip("_"), found.values(), ids=found)


TAMPERING: dict[str, Callable[[Project], object]] = {
    "a line slipped in": lambda it: it.amend(a=it.read() + "more\n"),
    "a line slipped into the reviewed hunk": lambda it: it.amend(a=it.read().replace("three\n", "three\nevil\n")),
    "a file slipped in": lambda it: it.amend(c="c\n"),
    "a file removed": lambda it: (it.git("rm", "--quiet", "b.txt"), it.amend()),
    "a mode changed": lambda it: (
        it.git("update-index", "--chmod=+x", "a.txt"),
        it.git("commit", "--quiet", "--amend", "-m", "amended"),
    ),
    "a file renamed": lambda it: (it.git("mv", "a.txt", "c.txt"), it.amend()),
    "a submodule added": lambda it: (
        it.git("update-index", "--add", "--cacheinfo", f"160000,{it.base},sub"),
        it.git("commit", "--quiet", "--amend", "-m", "amended"),
    ),
    "a statement signed for another purpose": lambda it: it.forge(lambda _: None, it.signature("ann", "git")),
    "a statement copied to another commit": lambda it: (
        it.commit("another", b="evil\n"),
        it.git("notes", "--ref=signoff", "copy", "HEAD~1", "HEAD"),
    ),
    "statements dropped": lambda it: it.git("update-ref", "-d", REVIEWS),
    "the policy changed in the range": lambda it: (
        it.write(POLICY_FILE, POLICY + "people = 0\n"),
        it.commit("policy"),
        it.commit("evil", a="evil\n"),
    ),
    "what was approved undone": lambda it: it.git("revert", "--no-edit", "HEAD"),
}


@pytest.mark.parametrize("tamper", TAMPERING.values(), ids=TAMPERING)
def test_a_reviewed_commit_that_was_tampered_with_is_refused(
    reviewed: Project, tamper: Callable[[Project], object]
) -> None:
    assert reviewed.verify()[0] == 0
    tamper(reviewed)
    assert reviewed.refuses(), reviewed.verify()


def test_a_program_in_the_workspace_neither_signs_nor_verifies(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, mark = project.root / ".venv/bin", tmp_path / "mark"
    folder.mkdir(parents=True)
    (project.root / ".git/info").mkdir(exist_ok=True)
    (project.root / ".git/info/exclude").write_text(".venv\n")
    script = f'#!/bin/sh\necho "$@" >> {mark}\nexec {shutil.which("ssh-keygen")} "$@"\n'
    (folder / "ssh-keygen").write_text(script)
    (folder / "ssh-keygen").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    project.replace("line 3", "three")
    assert project.verify()[0] == 0
    assert not mark.exists(), mark.read_text()


def test_the_commit_of_a_submodule_is_named_as_not_reviewed(reviewed: Project) -> None:
    TAMPERING["a submodule added"](reviewed)
    assert "the commit of the submodule not reviewed" in str(reviewed.verify())


def tamper_with_a_link_in_its_place(project: Project) -> None:
    project.review("a file", {"c.txt": "a.txt"})
    (project.root / "c.txt").unlink()
    (project.root / "c.txt").symlink_to("a.txt")
    project.amend()


def tamper_with_a_key_that_is_not_allowed(project: Project) -> None:
    project.become("eve")
    project.replace("line 3", "three")


def tamper_with_a_key_that_has_expired(project: Project) -> None:
    project.become("old")
    project.replace("line 3", "three")


def tamper_with_the_order_of_reviews(project: Project) -> None:
    project.replace("line 3", "three")
    second = project.replace("three", "four")
    text = project.read()
    project.git("reset", "--quiet", "--hard", project.base)
    project.commit("the second first", a=text)
    project.git("checkout", "--quiet", f"{second}~1", "--", "a.txt")
    project.commit("and then the first")


def tamper_with_a_review_of_another_repository(project: Project) -> None:
    other, there = project.root.parent / "other", Path.cwd()
    shutil.copytree(project.root, other)
    root, project.root = project.root, other
    project.write(POLICY_FILE, POLICY.replace("example", "elsewhere"))
    project.commit("named")
    os.chdir(other)
    project.replace("line 3", "three")
    os.chdir(there)
    project.root = root
    project.git("fetch", "--quiet", str(other), f"{REVIEWS}:{REVIEWS}")
    project.commit("replayed", a=project.read().replace("line 3\n", "three\n"))


def tamper_with_the_signers(project: Project) -> None:
    project.write("signers", project.signers("ann", "eve"))
    project.commit("signers")
    project.become("eve")
    project.replace("line 3", "three")


def tamper_with_a_merge(project: Project) -> None:
    project.replace_on("side", "line 30", "thirty")
    project.replace("line 3", "three")
    project.git("merge", "--quiet", "--no-ff", "--no-commit", "side")
    project.commit("merge", b="evil\n")


def tamper_by_dropping_a_change_in_a_merge(project: Project) -> None:
    project.replace_on("side", "line 30", "thirty")
    project.replace("line 3", "three")
    project.git("merge", "--quiet", "--strategy=ours", "side", "-m", "merge")


def tamper_with_two_names_for_a_key(project: Project) -> None:
    project.replace("line 3", "three")
    text = project.read()
    project.forge(lambda statement: None, project.signature("ann"))
    assert run("notes")[0] == 0
    project.git("reset", "--quiet", "--hard", project.base)
    project.write("signers", project.signers("ann") + f"anna@x.org {(project.keys / 'ann.pub').read_text()}")
    project.set_policy(POLICY + "people = 2\n")
    project.commit("three", a=text)


@cases(globals(), "tamper_")
def test_tampering_is_refused(project: Project, tamper: Callable[[Project], None]) -> None:
    tamper(project)
    assert project.refuses(), project.verify()


def accepted_in_a_clone(project: Project) -> bool:
    """Whether a fresh clone is accepted without anything of signoff's."""
    clone = project.clone("clone")
    git(clone, "fetch", "--quiet", "origin", f"{REVIEWS}:{REVIEWS}")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SIGNOFF_HOME", str(project.root.parent / "none"))
        patch.chdir(clone)
        code, said = project.verify()
    shutil.rmtree(clone)
    assert not (project.root.parent / "none").exists()
    return code == 0 and "ann@x.org" in said


def plain(project: Project) -> str:
    project.replace("line 3", "three")
    project.review("more", {"c.txt": "c\n", "b.txt": None})
    return project.replace("three", "four")


def test_reviewed_commits_are_accepted_after_git_rewrites_them(project: Project) -> None:
    project.switch("side", project.base)
    commit = plain(project)
    assert accepted_in_a_clone(project)
    project.git("commit", "--quiet", "--amend", "-m", "other words")
    assert accepted_in_a_clone(project)
    project.git("commit", "--quiet", "--allow-empty", "-m", "nothing")
    assert accepted_in_a_clone(project)
    project.git("reset", "--quiet", "--soft", project.base)
    project.git("commit", "--quiet", "-m", "all in one")
    assert accepted_in_a_clone(project)
    project.switch("main")
    project.base = project.replace("line 30", "thirty")
    project.switch("rebased", commit)
    project.git("rebase", "--quiet", "main")
    assert accepted_in_a_clone(project)


def accept_a_removal_squashed(project: Project) -> None:
    project.review("more", {"b.txt": "b\nb\n"})
    project.review("less", {"b.txt": None})
    project.git("reset", "--quiet", "--soft", project.base)
    project.git("commit", "--quiet", "-m", "all in one")


def accept_a_pick_where_both_sides_have_changed(project: Project) -> None:
    project.replace_on("side", "line 20", "twenty")
    text = project.read().replace("line 18\n", "landed\n").replace("line 23\n", "landed\n")
    project.base = project.commit("landed", a=text)
    project.git("cherry-pick", "side")


def accept_a_pick(project: Project) -> None:
    project.replace_on("side", "line 3", "three")
    project.replace("line 30", "thirty")
    project.git("cherry-pick", "side")


def accept_a_merge(project: Project) -> None:
    project.replace_on("side", "line 3", "three")
    project.replace("line 30", "thirty")
    project.git("merge", "--quiet", "--no-ff", "side", "-m", "merge")


def accept_a_reviewed_resolution(project: Project) -> None:
    project.replace_on("side", "line 3", "three")
    project.base = project.replace("line 3", "drei")
    subprocess.run(["git", "merge", "--quiet", "side"], cwd=project.root, capture_output=True, check=False)
    project.git("checkout", "--ours", "a.txt")
    project.replace("drei", "three or drei", "merge")


def accept_commits_of_parts(project: Project) -> None:
    part = project.read().replace("line 3\n", "three\n")
    whole = part.replace("line 30\n", "thirty\n")
    project.review("both", {"a.txt": whole})
    project.git("reset", "--quiet", "--hard", project.base)
    project.commit("one hunk", a=part)
    project.commit("the other", a=whole)


@cases(globals(), "accept_")
def test_reviewed_commits_are_accepted_in_other_histories(
    project: Project, accept: Callable[[Project], None]
) -> None:
    accept(project)
    assert accepted_in_a_clone(project), project.verify()


def test_reviews_signed_in_two_clones_are_merged(project: Project, tmp_path: Path) -> None:
    project.replace("line 3", "three")
    policy = tmp_path / "policy.toml"
    policy.write_text(POLICY + "people = 2\n")
    code, said = project.verify("--policy", str(policy))
    assert code == 3 and "a.txt: its change (line 4) not reviewed by 2 people" in said
    project.move_notes("refs/notes/ann")
    project.become("bob")
    assert run("notes")[0] == 0
    project.git("notes", f"--ref={REVIEWS}", "merge", "--strategy=cat_sort_uniq", "refs/notes/ann")
    said = project.verifies(0, "--policy", str(policy))
    assert "ann@x.org" in said
    assert "bob@x.org" in said


def test_the_policy_of_the_base_commit_decides(reviewed: Project) -> None:
    start, text = reviewed.base, reviewed.read()
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
        reviewed.git("reset", "--quiet", "--hard", start)
        reviewed.set_policy(POLICY + policy)
        reviewed.commit("three", a=text)
        found, said = reviewed.verify()
        assert found == code, (policy, said)


def test_a_name_that_several_references_have_is_refused(project: Project) -> None:
    project.git("update-ref", "refs/remotes/origin/main", project.base)
    project.git("config", "core.warnAmbiguousRefs", "false")
    evil = project.commit("evil", b="evil\n")
    project.commit("empty", "--allow-empty")
    for tag, name in (("origin/main", "origin/main"), (project.base[:9], project.base[:9]), ("b", "b~0")):
        project.git("branch", "--force", "b", project.base)
        project.git("tag", tag, evil)
        said = exits(1, "verify", f"{name}..HEAD")
        assert said == f"signoff: Git says: refname '{tag}' is ambiguous.\n"
    for name in ("HEAD", "refs/remotes/origin/main", project.base):
        project.git("update-ref", f"refs/tags/{name}", evil)
    assert "evil" in exits(3, "verify", "refs/remotes/origin/main..HEAD")
    assert "evil" in project.verifies(3)


def test_an_invalid_policy_is_reported_in_one_line(project: Project) -> None:
    for policy, why in (
        ("unknown = 1\n", "there is no setting 'unknown'; docs/verify.md"),
        ("people = \n", "TOML"),
        (f"people = {'[' * 5_000}\n", "nested too deeply"),
        ("people = 'all'\n", "people: write a whole number."),
        ("people = true\n", "people: write a whole number."),
        ("rebased = 'no'\n", "rebased: write true or false."),
        ("[paths]\nmatch = ['*']\n", "paths: write each as a table under [[paths]]."),
        ("[[paths]]\nmatch = ['*']\n[[paths]]\n", "match of [[paths]] number 2: this is missing."),
        ('allowed_signers = "none"\n', "is not in the base"),
        (r'allowed_signers = "\u0000"' "\n", "is not in the base"),
        ('allowed_signers = "/etc/passwd"\n', "/etc/passwd, which the policy names, is not in the base"),
        ('allowed_signers = "a/../../signers"\n', "is not in the base"),
    ):
        project.set_policy(policy)
        project.commit("x", b=policy)
        said = project.verifies(1)
        assert len(said.splitlines()) == 1
        assert "policy" in said and why in said


def test_unreviewed_commits_are_listed_as_json(reviewed: Project) -> None:
    reviewed.write("b, c%.txt", "x\n")
    reviewed.amend(a=reviewed.read().replace("line 30\n", "evil\n"))
    commit = reviewed.git("rev-parse", "--short=7", "HEAD")
    said = reviewed.verify("--format", "github")[1]
    assert f"::error file=a.txt,line=31,title=Not reviewed::{commit}: 1 of 2 hunks not reviewed." in said
    assert f"::error file=b%2C c%25.txt,title=Not reviewed::{commit}: a new file not reviewed." in said
    found = json.loads(reviewed.verify("--format", "sarif")[1])["runs"][0]["results"]
    places = [result["locations"][0]["physicalLocation"] for result in found]
    assert places[0] == {"artifactLocation": {"uri": "a.txt"}, "region": {"startLine": 31}}
    assert places[1] == {"artifactLocation": {"uri": "b%2C%20c%25.txt"}, "region": {"startLine": 1}}
    assert reviewed.verify("--format", "sarif", "--json")[0] == 2
    badge = json.loads(reviewed.verify("--format", "badge")[1])
    assert (badge["message"], badge["color"]) == ("0 of 1 commit", "red")
    first, second = json.loads(reviewed.verify("--json")[1])["commits"][0]["files"]
    assert (first["lines"], second["lines"]) == ([31], [])
    found = [(hunk["line"], hunk["covered"], len(hunk["reviews"])) for hunk in first["hunks"]]
    assert found == [(4, True, 1), (31, False, 0)]
    assert "a.txt: 1 of 2 hunks (line 31) not reviewed; line 4 by ann@x.org at " in reviewed.verify()[1]


def test_evidence_of_each_hunk_is_signed_with_the_review(project: Project) -> None:
    mark = HunkTestEvidence(path="a.txt", hunk=1, verdict=HunkTestVerdict.HELD, tests=("t.py::test_a",), count=1)
    fact = RecordedTestEvidence(check="tests", selection="all tests of the check", tree="", hunks=(mark,))
    changed: dict[str, str | None] = {"a.txt": project.read().replace("one\n", "two\n") + "more\n"}
    project.review("change", changed, circumstances=DecisionContext(through="app", evidence=fact))
    (commit,) = json.loads(project.verifies(0, "--json"))["commits"]
    (reviewer,) = commit["files"][0]["reviews"]
    assert reviewer["review"]["evidence"] == [
        {"path": "a.txt", "hunk": 1, "verdict": "held", "tests": ["t.py::test_a"], "check": "tests"}
    ]


def test_the_record_checks_the_signed_statements(reviewed: Project) -> None:
    assert "1 signed statement in git's notes: good" in exits(0, "log", "--verify")
    reviewed.forge(lambda statement: statement["predicate"]["reviews"][0].update(reviewer="bob <bob@x.org>"))
    reviewed.move_notes("refs/notes/origin/signoff-reviews")
    assert "no allowed key signed it" in exits(3, "log", "--verify")


def test_fetched_notes_count_and_are_merged(reviewed: Project) -> None:
    for reference in ("refs/notes/a\u2003b/signoff-reviews", "refs/notes/origin/signoff-reviews"):
        reviewed.move_notes(reference)
        assert reviewed.verify()[0] == 0
        if "origin" in reference:
            reviewed.replace("line 30", "thirty")
        else:
            reviewed.git("update-ref", REVIEWS, reference)
        reviewed.git("update-ref", "-d", reference)
    assert reviewed.verify()[0] == 0


def test_an_author_may_sign_a_commit_instead(project: Project) -> None:
    project.set_policy(POLICY + 'handwritten = "signature"\n')
    project.commit("by hand", "--gpg-sign", b="by hand\n")
    assert project.verify()[0] == 0
    project.commit("by an agent\n\nAssisted-by: agent:model", "--gpg-sign", b="by an agent\n")
    assert project.verify()[0] == 3
    project.git("reset", "--quiet", "--hard", "HEAD~1")
    project.commit("signed by another", "--gpg-sign", "--author=bob <bob@x.org>", b="by hand again\n")
    assert project.verify()[0] == 3


def test_a_statement_contains_the_decisions_of_its_commits_only(project: Project) -> None:
    for number in range(2):
        project.replace(f"line {number}", "x")
    sizes = [project.git("cat-file", "-s", name) for name in project.envelopes()]
    assert max(map(int, sizes)) < 1.2 * min(map(int, sizes))
    assert project.verify()[0] == 0
    project.base = project.git("rev-parse", "HEAD")
    project.review("one", {"a.txt": "one\n"}, sign=False)
    project.review("two", {"b.txt": "two\n"}, sign=False)
    assert "2 commits" in exits(0, "notes", f"{project.base}..HEAD")
    assert len(project.envelopes()) == len(sizes) + 1
    assert project.verify()[0] == 0


def test_verifying_nothing_is_not_a_success(project: Project) -> None:
    for words in (("HEAD..HEAD",), ("nowhere",), ("HEAD", "--at", "soon"), ("--policy", "none.toml")):
        code, said = run("verify", *words)
        assert code in (1, 2)
        assert len(said.splitlines()) == 1


def test_shallow_and_partial_clones_are_reported(reviewed: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    reviewed.commit("by hand", b="by hand\n")
    reviewed.replace("three", "four")
    shallow = reviewed.clone("shallow", "--depth=2")
    git(shallow, "fetch", "--quiet", "origin", f"{REVIEWS}:{REVIEWS}")
    monkeypatch.chdir(shallow)
    assert run("verify", "HEAD~1..HEAD")[0] == 0
    assert "shallow" in exits(1, "verify", "HEAD~1")
    reviewed.git("config", "uploadpack.allowFilter", "true")
    monkeypatch.chdir(reviewed.clone("partial", "--filter=blob:none"))
    assert "partial" in reviewed.verifies(1)


def test_oversized_notes_are_refused_in_one_line(reviewed: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("_MAX_NOTE_BYTES", 200_000), ("_MAX_ENVELOPES", 1_000), ("_MAX_BYTES", 300_000)):
        monkeypatch.setattr(review_notes, name, value)
    large = [reviewed.hash(b"%d" % number + b"x" * 60_000) for number in range(6)]
    for text, words in (
        ("x" * 250_000, "the most is 200,000"),
        ("".join(f"{number:040x}\n" for number in range(1_500)), "names more than 1,000 reviews"),
        ("\n".join(large), "have more than 300,000 bytes"),
    ):
        blob = reviewed.hash(text.encode())
        for _, key in reviewed.notes():
            reviewed.note(key, "-C", blob)
        said = reviewed.verifies(1)
        assert len(said.splitlines()) == 1 and words in said


def test_an_invalid_note_covers_nothing(reviewed: Project) -> None:
    for text in (b"[" * 100_000, b"\xff\x1b[31m", b'{"payload": "", "signatures": []}', b"../x\n"):
        blob = reviewed.hash(text)
        for _, key in reviewed.notes():
            reviewed.note(key, "-m", f"../x\nHEAD\n{blob}")
        assert "\x1b" not in reviewed.verifies(3)


def test_control_characters_in_names_are_made_visible(reviewed: Project) -> None:
    reviewed.write("\x1b[31mred\n✓ a.txt: reviewed", "x\n")
    reviewed.commit("\x1b[2J cleared")
    said = reviewed.verifies(3)
    assert "\x1b" not in said
    assert "\n✓ a.txt: reviewed" not in said


def write_script(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


def test_setup_lets_git_push_the_notes(project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hook = write_script(project.root / ".git/hooks/post-commit", "#!/usr/bin/python3\n")
    assert "is no shell script" in exits(3, "notes", "--install", "--yes")
    assert hook.read_text() == "#!/usr/bin/python3\n"
    server = project.clone("server.git", "--bare")
    project.git("remote", "add", "origin", str(server))
    hook.write_text("#!/bin/sh\ntouch .git/mine\nexit 0\n")
    hook.chmod(0o644)
    assert "is not executable" in exits(3, "notes", "--install", "--yes")
    hook.chmod(0o755)
    said = exits(0, "notes", "--install")
    assert "+signoff notes --if-reviewed || true" in said
    assert "Nothing is written yet" in said
    assert "signoff" not in hook.read_text() + (project.root / ".git/config").read_text()
    assert run("notes", "--install", "--yes")[0] == 0
    assert "nothing was changed" in run("notes", "--install", "--yes")[1]
    project.review("by the hook", {"a.txt": "one\n"}, sign=False)
    assert (project.root / ".git/mine").exists()
    assert project.verify()[0] == 0
    project.git("push", "--quiet")
    # Somebody else's notes come meanwhile.
    other = tmp_path / "other"
    git(tmp_path, "clone", "--quiet", str(server), str(other))
    git(other, "fetch", "--quiet", "origin", f"{REVIEWS}:{REVIEWS}")
    monkeypatch.chdir(other)
    for key in ("gpg.format", "user.name", "user.email", "user.signingkey"):
        git(other, "config", key, project.git("config", key))
    there = Project.__new__(Project)
    there.root = other
    there.review("theirs", {"c.txt": "c\n"})
    git(other, "push", "--quiet", "origin", "HEAD", REVIEWS)
    monkeypatch.chdir(project.root)
    project.git("fetch", "--quiet")
    project.git("reset", "--quiet", "--hard", "origin/main")
    assert project.verify()[0] == 0
    project.base = project.git("rev-parse", "HEAD")
    project.review("mine again", {"a.txt": "two\n"}, sign=False)
    project.git("push", "--quiet")
    assert project.verify()[0] == 0


def test_the_documented_server_hook_accepts_only_reviewed_commits(reviewed: Project) -> None:
    script = DOCUMENTATION.partition("## On your own server")[2].partition("```sh\n")[2].partition("```")[0]
    commit = reviewed.git("rev-parse", "HEAD")
    reviewed.git("reset", "--quiet", "--hard", reviewed.base)
    server = reviewed.clone("server.git", "--bare")
    reviewed.git("reset", "--quiet", "--hard", commit)
    write_script(server / "hooks/pre-receive", script)

    def push(*references: str) -> subprocess.CompletedProcess[bytes]:
        words = ["git", "-C", str(reviewed.root), "push", "--quiet", str(server), *references]
        return subprocess.run(words, capture_output=True, check=False)

    refused = push("main")
    assert refused.returncode != 0
    assert b"a.txt: its change" in refused.stderr
    assert push("main", REVIEWS).returncode == 0
    reviewed.commit("evil", b="evil\n")
    assert push("main", REVIEWS).returncode != 0
    assert push(":main").returncode != 0
    assert git(server, "rev-parse", "main~1") == reviewed.base


@pytest.mark.parametrize("forge", ["GitHub", "GitLab"])
def test_the_documented_forge_workflow_verifies_a_request(reviewed: Project, tmp_path: Path, forge: str) -> None:
    lines = DOCUMENTATION.partition(f"## On {forge}")[2].partition("```yaml\n")[2].partition("```")[0]
    if forge == "GitHub":
        script = "\n".join(line.strip() for line in lines.partition("run: |\n")[2].splitlines())
    else:
        script = lines.partition("script:\n")[2].replace("\n      ", " ").replace("    - ", "")
    commit = reviewed.git("rev-parse", "HEAD")
    fork, server = (reviewed.clone(name, "--bare") for name in ("fork.git", "server.git"))
    reviewed.git("push", "--quiet", str(fork), REVIEWS)
    git(fork, "tag", "origin/main", commit)
    git(server, "update-ref", "refs/pull/1/head", commit)
    git(server, "update-ref", "refs/heads/main", reviewed.base)
    job = tmp_path / "job"
    git(tmp_path, "clone", "--quiet", f"file://{server}", str(job))
    git(job, "fetch", "--quiet", "origin", "refs/pull/1/head")
    program = write_script(tmp_path / "bin/uvx", '#!/bin/sh\nshift 2\nexec "$@"\n')
    values = {
        "PATH": f"{program.parent}:{os.environ['PATH']}",
        "HOME": str(tmp_path),
        "SIGNOFF": "signoff",
        "FORK": f"file://{fork}",
        "PULL": "refs/pull/1/head",
        "RANGE": f"refs/remotes/origin/main..{commit}",
        "CI_MERGE_REQUEST_TARGET_BRANCH_NAME": "main",
        "CI_MERGE_REQUEST_SOURCE_PROJECT_URL": f"file://{tmp_path}/fork",
        "CI_COMMIT_SHA": commit,
    }

    def verify() -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(["sh", "-e", "-c", script], cwd=job, env=values, capture_output=True, check=False)

    done = verify()
    assert done.returncode == 0, done.stderr
    assert b"1 commit covered" in done.stdout
    assert not git(job, "tag"), "a tag of the fork could hide its commits"
    git(job, "update-ref", "-d", "refs/notes/fork/signoff-reviews")
    git(fork, "update-ref", "-d", REVIEWS)
    done = verify()
    assert done.returncode == 3, done.stderr
    assert b"not reviewed" in done.stdout


def test_staging_names_earlier_approvals(project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server = project.clone("server.git", "--bare")
    project.git("remote", "add", "origin", str(server))
    assert run("approve", project.stage("a.txt", "one\n"))[0] == 0
    assert "Your signed review went with it." in exits(0, "push", "P1")
    other = tmp_path / "other"
    git(tmp_path, "clone", "--quiet", str(server), str(other))
    git(other, "fetch", "--quiet", "origin", f"{REVIEWS}:{REVIEWS}")
    monkeypatch.chdir(other)
    assert "Approved before: a.txt: ann@x.org (P1, 1/1 hunks)" in exits(0, "stage", "--from", "origin", "signoff/P1")


def test_two_approvers_are_required(project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project.set_policy(POLICY + "[[paths]]\nmatch = ['a.*']\npeople = 2\n")
    server, other = project.clone("server.git", "--bare"), tmp_path / "other"
    git(tmp_path, "clone", "--quiet", str(server), str(other))
    project.stage("a.txt", "one\n")
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
    project.git("config", "gpg.format", "ssh")
    assert run("stage", "--from", "origin", "signoff/P1")[0] == 0
    assert run("approve", "P1")[0] != 0
    project.git("fetch", "--quiet", "origin", f"{REVIEWS}:{REVIEWS}")
    exits(0, "approve", "P1")
    assert project.read() == "one\n"
    project.commit("one")
    assert run("notes")[0] == 0
    assert project.verify()[0] == 0


@pytest.mark.layer
def test_a_signed_statement_contains_unseen_lines_and_check_results(project: Project, tmp_path: Path) -> None:
    server = project.clone("server.git", "--bare")
    settings = tmp_path / "home/config/config.toml"
    settings.parent.mkdir(parents=True)
    settings.write_text('[[check]]\nname = "tests"\nrun = "! grep -q two a.txt"\nwhen = "approve"\n')
    project.stage("a.txt", "two\n")
    assert "P1 is not signed: tests" in exits(3, "push", "P1", str(server), "--sign")
    assert not project.envelopes()
    assert run("deny", "P1")[0] == 0
    project.stage("a.txt", "one\n")
    runtime = open_workspace(project.root, {}, {})
    hunks = runtime.service.get("P2").hunks
    seen = {hunk.id: bytes([1] * (hunk.old_count + hunk.new_count)) for hunk in hunks}
    runtime.seen_lines_store.add_seen({"P2": seen})
    runtime.close()
    exits(0, "push", "P2", str(server), "--sign")
    [envelope] = project.envelopes()
    payload = json.loads(project.git("cat-file", "blob", envelope))["payload"]
    [review] = json.loads(base64.b64decode(payload))["predicate"]["reviews"]
    assert review["unseenLines"] == 0
    assert [(one["name"], one["state"]) for one in review["checks"]] == [("tests", "passed")]


def test_with_the_setting_each_approval_is_committed_and_signed(project: Project, tmp_path: Path) -> None:
    (tmp_path / "home/config").mkdir(parents=True)
    (tmp_path / "home/config/config.toml").write_text("commit = true\n")
    exits(0, "notes", "--install", "--yes")
    for path in ("a.txt", "b.txt"):
        project.stage(path, "one\n")
    assert run("approve", "P1", "P2")[0] == 0
    assert len(project.envelopes()) == 2
    project.verifies(0)
