"""What a hostile contributor may try against `signoff verify`: history, configuration, statements, notes."""

import base64
import json
import os
import shutil
import subprocess
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path

import pytest

from app.attestation.review_notes import merge_notes_and_add_envelope
from app.attestation.signed_statement import (
    ReviewedFile,
    ReviewedProposalOrigin,
    SignedApproval,
    make_envelope,
    make_statement,
)
from app.attestation.signed_statement import pre_authentication_encoding as to_sign
from app.git.borrowed_repository import ObjectBorrowingRepository
from tests.commands.test_verify import POLICY, POLICY_FILE, Project, cases, keys, project, reviewed, run

__all__ = ["keys", "project", "reviewed"]
pytestmark = pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="ssh-keygen is not installed")

ROOTLESS = 'allowed_signers = "signers"\n'
"""A policy that gives the repository no name."""


def commit_tree(project: Project, tree: str, *parents: str) -> str:
    """Return a commit with any tree and any parents; it is checked out."""
    words = [word for parent in parents for word in ("-p", parent)]
    commit = project.git("commit-tree", f"{tree}^{{tree}}", *words, "-m", "made")
    project.git("reset", "--quiet", "--hard", commit)
    return commit


def commit_root(project: Project, entries: bytes = b"") -> str:
    """Return a commit without parents and with these entries; it is checked out."""
    return commit_tree(project, project.git("mktree", data=entries))


def commit_literally(project: Project, data: bytes) -> None:
    """Let the branch end with any bytes as its commit."""
    commit = project.hash(data, "-t", "commit", "--literally")
    project.git("update-ref", "HEAD", commit)


def sign_statement(
    project: Project,
    *files: ReviewedFile,
    signer: str = "ann",
    repository: Sequence[str] = ("example",),
    change: Callable[[bytes], bytes] = bytes,
    forge: Callable[[bytes], bytes] = bytes,
) -> None:
    """Put a statement of somebody into the notes, as no program of ours would write it."""
    review = SignedApproval(
        reviewer=f"{signer} <{signer}@x.org>",
        time=1_700_000_000,
        result="approved",
        proposal="P1",
        origin=ReviewedProposalOrigin(kind="model"),
        files=files,
        entry=1,
        previous="",
    )
    payload = make_statement(repository, [review])
    envelope = json.loads(make_envelope(payload, project.signature(signer)(to_sign(change(payload)))))
    envelope["payload"] = base64.b64encode(forge(change(payload))).decode()
    with ObjectBorrowingRepository(project.root) as borrowed:
        name = merge_notes_and_add_envelope(borrowed, make_envelope(payload, b""))
    new = project.hash(json.dumps(envelope).encode())
    for blob, key in project.notes():
        text = project.git("cat-file", "blob", blob)
        if name in text.split():
            project.note(key, "-m", text.replace(name, new))
    project.note(new, "-C", new)


def sign_new_file(project: Project, mode: str = "", change: Callable[[bytes], bytes] = bytes) -> None:
    """Commit c.txt, and sign a statement that it was reviewed."""
    project.commit("c")
    file = ReviewedFile(path="c.txt", result=project.blob("c.txt"), result_mode=mode)
    sign_statement(project, file, change=change)


def attack_with_an_octopus_that_begins_with_an_old_commit(project: Project) -> None:
    old, side = project.base, project.replace_on("side", "line 30", "thirty")
    project.base = project.replace("line 3", "a fix")
    # With the tree of the first parent, the fix is gone.
    commit_tree(project, old, old, project.base, side)


def accept_an_octopus(project: Project) -> None:
    lines = ("line 10", "line 20", "line 30")
    sides = [project.replace_on(line.replace(" ", ""), line, "reviewed") for line in lines]
    project.git("merge", "--quiet", *sides)


def attack_with_a_line_slipped_into_an_octopus(project: Project) -> None:
    accept_an_octopus(project)
    project.amend(b="evil\n")


def attack_with_an_empty_root_that_removes_all(project: Project) -> None:
    root = commit_root(project)
    commit_tree(project, root, root, project.base)


def attack_with_a_root_that_removes_a_file(project: Project) -> None:
    project.review("c", {"c.txt": "c\n"})
    project.base = project.git("rev-parse", "HEAD")
    root = commit_root(project, project.git("ls-tree", "HEAD", "c.txt").encode() + b"\n")
    commit_tree(project, root, root, project.base)


def attack_with_a_conflict_that_takes_the_old_side(project: Project) -> None:
    side = project.replace_on("side", "line 3", "three")
    project.base = project.replace("line 3", "a fix")
    commit_tree(project, side, project.base, side)


def attack_with_a_conflict_whose_result_was_reviewed_elsewhere(project: Project) -> None:
    side = project.replace_on("side", "line 3", "three")
    project.switch("side")
    after = project.replace("line 30", "thirty")
    project.switch("main")
    project.base = project.replace("line 3", "a fix")
    commit_tree(project, after, side, project.base)


def attack_with_a_conflict_in_which_what_was_merged_before_is_lost(project: Project) -> None:
    side = project.replace_on("side", "line 3", "three")
    other = project.replace_on("other", "line 20", "twenty")
    project.base = project.replace("line 3", "a fix")
    project.switch("other")
    project.git("merge", "--quiet", "--no-ff", "main", "-m", "merge")
    assert other != project.git("rev-parse", "HEAD")
    commit_tree(project, side, side, "HEAD")


def attack_with_a_union_merge_that_attributes_of_the_work_tree_ask_for(project: Project) -> None:
    project.replace_on("side", "line 3", "return safe")
    project.replace("line 3", "return other")
    (project.root / ".git/info").mkdir(exist_ok=True)
    for path in (".git/info/attributes", ".gitattributes"):
        project.write(path, "* merge=union\n")
    project.git("merge", "--quiet", "side", "-m", "merge")
    assert "return other\nreturn safe\n" in project.read()


def attack_with_a_fast_forward_to_an_evil_second_parent(project: Project) -> None:
    evil = project.commit("evil", a="evil\n")
    commit_tree(project, evil, project.base, evil)


def attack_with_a_merged_root_of_another_repository(project: Project) -> None:
    project.set_policy(ROOTLESS)
    other = commit_root(project)
    project.git("reset", "--quiet", "--hard", project.base)
    commit_tree(project, project.base, project.base, other)
    base, result = project.blob("b.txt"), project.hash(b"evil\n")
    sign_statement(project, ReviewedFile(path="b.txt", base=base, result=result), repository=[other])
    project.commit("replayed", b="evil\n")


def attack_with_a_statement_changed_after_its_signature(project: Project) -> None:
    project.commit("c", c="evil\n")
    file = ReviewedFile(path="c.txt", result=project.blob("c.txt"))
    sign_statement(project, file, forge=lambda payload: payload.replace(b'"P1"', b'"P2"'))


def attack_with_a_statement_without_modes_for_a_link(project: Project) -> None:
    (project.root / "c.txt").symlink_to("a.txt")
    sign_new_file(project)


def attack_with_a_statement_without_modes_for_a_program(project: Project) -> None:
    project.write("c.txt", "c\n")
    (project.root / "c.txt").chmod(0o755)
    sign_new_file(project)


def attack_with_a_statement_that_does_not_say_what_it_is(project: Project) -> None:
    def change(payload: bytes) -> bytes:
        statement = json.loads(payload)
        del statement["predicateType"]
        return json.dumps(statement).encode()

    project.write("c.txt", "c\n")
    sign_new_file(project, "100644", change)


def attack_with_a_denial_signed_as_a_review(project: Project) -> None:
    project.write("c.txt", "c\n")
    sign_new_file(project, "100644", lambda payload: payload.replace(b'result":"approved"', b'result":"denied"'))


def attack_with_a_removed_line_read_as_an_added_one(project: Project) -> None:
    project.review("no end", {"c.txt": "1\n2\n3\nif user:"})
    project.base = project.review("again", {"c.txt": "1\n2\n3\nif user:+evil()\n4\n5\n6\n"})
    project.review("removed", {"c.txt": "1\n2\n3\n4\n5\n6\n"})
    # Without lengths the removed line `if user:+evil()` is a removed `if user:` and an added `evil()`.
    project.git("reset", "--quiet", "--hard", f"{project.base}~1")
    project.base = project.git("rev-parse", "HEAD")
    project.commit("evil", c="1\n2\n3\nevil()\n")


def attack_with_a_review_of_a_file_for_a_link(project: Project) -> None:
    project.review("a file", {"c.txt": "a.txt"})
    project.review("again", {"c.txt": "b.txt"})
    project.git("reset", "--quiet", "--hard", project.base)
    (project.root / "c.txt").symlink_to("a.txt")
    project.base = project.commit("a link")
    (project.root / "c.txt").unlink()
    (project.root / "c.txt").symlink_to("b.txt")
    project.commit("the link goes elsewhere")


def attack_with_the_author_in_other_letters(project: Project) -> None:
    project.set_policy(POLICY + "author_counts = false\n")
    project.replace("line 3", "three")
    project.git("commit", "--quiet", "--amend", "--no-edit", "--author=ann <ANN@x.org>")


def attack_with_a_name_twice_in_a_tree(project: Project) -> None:
    project.replace("line 3", "three")
    parts, evil = [], project.hash(b"evil\n")
    for line in project.git("ls-tree", "HEAD").splitlines():
        facts, _, name = line.partition("\t")
        mode, _, blob = facts.split()
        for each in (blob, evil) if name == "a.txt" else (blob,):
            parts.append(f"{mode.lstrip('0')} {name}".encode() + b"\0" + bytes.fromhex(each))
    tree = project.hash(b"".join(parts), "-t", "tree", "--literally")
    commit = project.git("commit-tree", tree, "-p", project.base, "-m", "twice")
    project.git("update-ref", "HEAD", commit)


def attack_with_a_nul_in_the_author(project: Project) -> None:
    project.commit("evil", a="evil\n")
    text = project.git("cat-file", "commit", "HEAD").encode() + b"\n"
    text = text.replace(b"author ann", b"author an\0n")
    commit_literally(project, text.replace(b"\n\nevil", b"\nencoding UTF-16LE\n\ne\0vil"))


def attack_with_a_policy_in_the_work_tree(project: Project) -> None:
    project.commit("evil", a="evil\n")
    project.write(POLICY_FILE, POLICY + "people = 0\n")


def attack_with_replaced_and_grafted_commits(project: Project) -> None:
    good = project.replace("line 3", "three")
    evil = project.commit("evil", a="evil\n")
    project.git("replace", "HEAD", good)
    project.write(".git/info/grafts", f"{evil}\n")


def certify(project: Project, name: str, *more: str, by: str = "ann", principal: str = "") -> None:
    """Sign with the certificate of a key from now on, where ann's key is the authority that is allowed."""
    key = project.keys / name
    words = ["ssh-keygen", "-q", "-s", str(project.keys / by), "-I", name, "-n", principal or f"{name}@x.org", *more]
    subprocess.run([*words, f"{key}.pub"], check=True)
    project.write("signers", f"*@x.org cert-authority {(project.keys / 'ann.pub').read_text()}")
    project.base = project.commit("signers")
    project.git("config", "user.signingkey", f"{key}-cert.pub")


def attack_with_a_certificate_of_another_authority(project: Project) -> None:
    certify(project, "eve", by="eve", principal="ann@x.org")
    project.replace("line 3", "three")
    project.git("config", "user.signingkey", str(project.keys / "ann"))
    project.review("the key of the authority signs itself", {"c.txt": "c\n"})


def attack_with_a_certificate_that_has_expired(project: Project) -> None:
    certify(project, "old", "-V", "-2d:-1d")
    project.replace("line 3", "three")


def attack_with_an_envelope_that_one_person_signs_twice(project: Project) -> None:
    project.replace("line 3", "three")
    text = project.read()
    project.git("reset", "--quiet", "--hard", project.base)
    project.set_policy(POLICY + "people = 2\n")
    project.commit("three", a=text)
    [name] = project.envelopes()
    envelope = json.loads(project.git("cat-file", "blob", name))
    envelope["signatures"] *= 2
    twice = json.dumps(envelope).replace('{"payload"', '{"payload": "", "payload"')
    new = project.hash(twice.encode())
    for blob, key in project.notes():
        if blob != key:
            project.note(key, "-m", f"{name}\n{new}")


def attack_with_a_signature_in_another_base64(project: Project) -> None:
    project.replace("line 3", "three")
    [name] = project.envelopes()
    envelope = json.loads(project.git("cat-file", "blob", name))
    envelope["payload"] = envelope["payload"][:-4] + "\n" + envelope["payload"][-4:]
    new = project.hash(json.dumps(envelope).encode())
    for _, key in project.notes():
        project.note(key, "-m", new)


def attack_with_a_path_in_another_unicode_form(project: Project) -> None:
    project.review("new", {"caf\u00e9.txt": "c\n"})
    project.git("mv", "caf\u00e9.txt", "cafe\u0301.txt")
    project.amend()


def attack_with_a_signed_commit_with_a_header_more(project: Project) -> None:
    project.set_policy(POLICY + 'handwritten = "signature"\n')
    project.commit("by hand", "--gpg-sign", b="by hand\n")
    text = project.git("cat-file", "commit", "HEAD")
    commit_literally(project, text.replace("\ngpgsig ", "\ngpgsigned evil\ngpgsig ").encode() + b"\n")


@cases(globals(), "attack_")
def test_an_attack_is_refused(project: Project, attack: Callable[[Project], None]) -> None:
    attack(project)
    assert project.refuses(), project.verify()


def accept_a_history_from_elsewhere(project: Project) -> None:
    project.git("checkout", "--quiet", "--orphan", "elsewhere")
    project.git("rm", "--quiet", "-rf", ".")
    project.review("a root", {"c.txt": "c\n"}, sign=False)
    project.switch("main")
    project.git("merge", "--quiet", "--allow-unrelated-histories", "elsewhere", "-m", "merge")
    assert run("notes", "elsewhere")[0] == 0


def accept_a_conflict_for_the_side_that_was_there(project: Project) -> None:
    side = project.replace_on("side", "line 3", "three")
    project.base = project.replace("line 3", "a fix")
    commit_tree(project, project.base, side, project.base)


def accept_a_certificate(project: Project) -> None:
    certify(project, "eve")
    project.replace("line 3", "three")


def accept_several_principals(project: Project) -> None:
    line = project.signers("ann").replace("ann@x.org", "ann@home.org,ann@x.org")
    project.write("signers", 'ann@x.org namespaces="git"' + line[line.index(" ") :] + line)
    project.base = project.commit("signers")
    project.replace("line 3", "three")


def accept_a_name_for_the_repository_in_the_range(project: Project) -> None:
    project.set_policy(ROOTLESS)
    project.review("named", {POLICY_FILE: ROOTLESS + 'repository = "named"\n'})
    project.replace("line 3", "three")


def accept_odd_names_line_endings_and_modes(project: Project) -> None:
    project.write(".gitattributes", "*.bat text eol=crlf\n")
    project.write("run.bat", "one\r\ntwo\r\n")
    project.write("run", "#!/bin/sh\n")
    (project.root / "run").chmod(0o755)
    (project.root / "link").symlink_to("a.txt")
    project.base = project.commit("a batch file, a program and a link")
    odd = {"caf\u00e9 [x].txt": "c\n", "-o": "c\n", "d/:(top)": "c\n"}
    project.review("edited", {**odd, "run.bat": "one\r\n2\r\n", "new.bat": "x\r\n", "run": "#!/bin/sh\necho\n"})
    assert project.git("cat-file", "blob", "HEAD:run.bat") == "one\n2"


def accept_a_forged_statement_beside_the_true_ones(project: Project) -> None:
    """It claims the whole way at once, so that the true ones are not looked for."""
    blobs = [project.blob("a.txt")]
    for line in ("line 3", "line 5", "line 7"):
        project.commit("step", a=project.read().replace(f"{line}\n", "x\n"))
        blobs.append(project.blob("a.txt"))
    sign_statement(project, ReviewedFile(path="a.txt", base=blobs[0], result=blobs[-1]), signer="eve")
    for base, result in pairwise(blobs):
        sign_statement(project, ReviewedFile(path="a.txt", base=base, result=result))
    project.git("reset", "--quiet", "--soft", project.base)
    project.git("commit", "--quiet", "-m", "squashed")


@cases(globals(), "accept_")
def test_reviewed_commits_are_accepted_in_odd_repositories(
    project: Project, accept: Callable[[Project], None]
) -> None:
    accept(project)
    code, said = project.verify()
    assert code == 0, said


CONFIGURATION = {
    "core.fsmonitor": "PROGRAM",
    "core.hooksPath": "FOLDER",
    "core.sshCommand": "PROGRAM",
    "core.pager": "PROGRAM",
    "core.editor": "PROGRAM",
    "core.askPass": "PROGRAM",
    "core.attributesFile": "ATTRIBUTES",
    "core.alternateRefsCommand": "PROGRAM",
    "core.worktree": "/",
    "core.quotePath": "false",
    "core.abbrev": "4",
    "core.commentChar": ";",
    "credential.helper": "!PROGRAM",
    "diff.external": "PROGRAM",
    "diff.it.textconv": "PROGRAM",
    "diff.it.command": "PROGRAM",
    "diff.renames": "copies",
    "diff.orderFile": "/nonexistent",
    "diff.ignoreSubmodules": "all",
    "filter.it.clean": "PROGRAM",
    "filter.it.smudge": "PROGRAM",
    "filter.it.process": "PROGRAM",
    "filter.it.required": "true",
    "merge.it.driver": "PROGRAM",
    "merge.default": "it",
    "merge.renames": "false",
    "gpg.program": "PROGRAM",
    "gpg.ssh.program": "PROGRAM",
    "gpg.ssh.allowedSignersFile": "/nonexistent",
    "gpg.ssh.defaultKeyCommand": "PROGRAM",
    "log.showSignature": "true",
    "log.showRoot": "false",
    "log.mailmap": "true",
    "log.follow": "true",
    "format.pretty": "oneline",
    "i18n.logOutputEncoding": "UTF-16",
    "notes.displayRef": "refs/notes/*",
    "core.notesRef": "refs/heads/main",
    "trailer.separators": "#",
    "trailer.it.command": "PROGRAM",
    "pager.log": "PROGRAM",
    "alias.log": "!PROGRAM",
    "alias.verify-commit": "!PROGRAM",
    "uploadpack.packObjectsHook": "PROGRAM",
    "remote.origin.uploadpack": "PROGRAM",
    "url.ext::PROGRAM.insteadOf": "https://",
    "extensions.worktreeConfig": "true",
    "include.path": "more",
}
"""What runs programs, or changes what git prints, in the configuration of a repository."""


def test_git_configuration_neither_runs_nor_changes_a_verification(project: Project, tmp_path: Path) -> None:
    project.replace_on("side", "line 3", "three")
    project.review("renamed", {"b.txt": None, "c.txt": "b\n"})
    project.git("merge", "--quiet", "side", "-m", "merge")
    before = project.verify()
    assert before[0] == 0, before[1]
    program, hooks = tmp_path / "program", tmp_path / "hooks"
    program.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\nexit 1\n")
    program.chmod(0o755)
    hooks.mkdir()
    for name in ("reference-transaction", "post-index-change", "post-checkout", "pre-auto-gc"):
        shutil.copy(program, hooks / name)
    attributes = "* text=auto diff=it filter=it merge=it -merge\n*.txt export-ignore working-tree-encoding=UTF-16\n"
    (tmp_path / "attributes").write_text(attributes)
    project.write(".gitattributes", attributes)
    project.write(".mailmap", "Eve <eve@x.org> <ann@x.org>\n")
    project.write(".git/more", f'[core]\n\tfsmonitor = "{program}"\n')
    project.write(".signoff.toml", "this is no TOML")
    project.write("pyproject.toml", "nor this")
    project.write("sitecustomize.py", "raise SystemExit")
    for key, value in CONFIGURATION.items():
        value = value.replace("PROGRAM", str(program)).replace("FOLDER", str(hooks))
        project.git("config", key.replace("PROGRAM", "x"), value.replace("ATTRIBUTES", f"{tmp_path}/attributes"))
    assert project.verify() == before
    assert not (tmp_path / "ran").exists()


def test_a_range_is_never_taken_as_an_option(reviewed: Project) -> None:
    for words in (("--output=x",), ("--", "--output=x"), ("--", "HEAD..--output=x"), ("--notes=-x",)):
        code, said = run("verify", *words)
        assert code in (1, 2), said
        assert not (reviewed.root / "x").exists()
        assert "Traceback" not in said


def test_too_many_invalid_signatures_are_refused_in_one_line(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.attestation.commit_verification._MAX_REFUSED", 3)
    project.commit("c", c="c\n")
    for number in range(5):
        blob = project.blob("c.txt")
        sign_statement(project, ReviewedFile(path="c.txt", base=f"{number:040x}", result=blob), signer="eve")
    code, said = project.verify()
    assert code == 1
    assert len(said.splitlines()) == 1


def test_a_repository_of_sha256_is_verified(tmp_path: Path, keys: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SIGNOFF_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("GIT_DEFAULT_HASH", "sha256")
    project = Project(tmp_path / "ws", keys)
    monkeypatch.chdir(project.root)
    assert len(project.base) == 64
    project.replace("line 3", "three")
    code, said = project.verify()
    assert code == 0, said


def test_a_linked_work_tree_is_verified(reviewed: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reviewed.git("worktree", "add", "--quiet", "--detach", str(tmp_path / "linked"))
    monkeypatch.chdir(tmp_path / "linked")
    assert reviewed.verify()[0] == 0


def test_file_names_that_are_not_utf_8_are_reported(project: Project) -> None:
    (project.root / os.fsdecode(b"\xff\n.txt")).write_text("x\n")
    project.commit("odd")
    for form in ("text", "github", "sarif", "badge"):
        code, said = project.verify("--format", form)
        assert code == 3, said
        assert "Traceback" not in said
    assert json.loads(project.verify("--json")[1])["covered"] is False
