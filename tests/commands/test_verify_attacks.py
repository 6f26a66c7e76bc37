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

from app.attestation import review_notes
from app.attestation.review_notes import REVIEWS, merge_notes_and_add_envelope
from app.attestation.signed_statement import ReviewedFile, ReviewOrigin, SignedReview, make_envelope, make_statement
from app.attestation.signed_statement import pre_authentication_encoding as to_sign
from app.git.borrowed_repository import BorrowedRepository
from tests.commands.test_verify import POLICY, POLICY_FILE, Project, amend, git, keys, project, run

__all__ = ["keys", "project"]
pytestmark = pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="ssh-keygen is not installed")

ROOTLESS = 'allowed_signers = "signers"\n'
"""A policy that gives the repository no name."""


def commit_tree(root: Path, tree: str, *parents: str) -> str:
    """Return a commit with any tree and any parents; it is checked out."""
    words = [word for parent in parents for word in ("-p", parent)]
    commit = git(root, "commit-tree", f"{tree}^{{tree}}", *words, "-m", "made")
    git(root, "reset", "--quiet", "--hard", commit)
    return commit


def empty_tree(root: Path) -> str:
    return git(root, "hash-object", "-w", "-t", "tree", "--stdin", data=b"")


def sign_statement(
    project: Project,
    *files: ReviewedFile,
    signer: str = "ann",
    repository: Sequence[str] = ("example",),
    change: Callable[[bytes], bytes] = lambda payload: payload,
) -> str:
    """Put a statement of somebody into the notes, as no program of ours would write it."""
    review = SignedReview(
        reviewer=f"{signer} <{signer}@x.org>",
        time=1_700_000_000,
        result="approved",
        proposal="P1",
        origin=ReviewOrigin(kind="model"),
        files=files,
        entry=1,
        previous="",
    )
    payload = make_statement(repository, [review])
    envelope = json.loads(make_envelope(payload, project.signature(signer)(to_sign(change(payload)))))
    envelope["payload"] = base64.b64encode(change(payload)).decode()
    with BorrowedRepository(project.root) as borrowed:
        keys = make_envelope(payload, b"")
        name = merge_notes_and_add_envelope(borrowed, keys)
    new = git(project.root, "hash-object", "-w", "--stdin", data=json.dumps(envelope).encode())
    for line in git(project.root, "notes", f"--ref={REVIEWS}", "list").splitlines():
        blob, key = line.split()
        text = git(project.root, "cat-file", "blob", blob)
        if name in text.split():
            git(project.root, "notes", f"--ref={REVIEWS}", "add", "-f", "-m", text.replace(name, new), key)
    git(project.root, "notes", f"--ref={REVIEWS}", "add", "-f", "-C", new, new)
    return new


def blob_of(project: Project, name: str) -> str:
    return git(project.root, "rev-parse", name)


def an_octopus_that_begins_with_an_old_commit(project: Project) -> None:
    old = project.base
    git(project.root, "checkout", "--quiet", "-b", "side")
    side = project.replace("line 30", "thirty")
    git(project.root, "checkout", "--quiet", "main")
    project.base = project.replace("line 3", "a fix")
    # With the tree of the first parent, the fix is gone.
    commit_tree(project.root, old, old, project.base, side)


def an_octopus_with_a_line_slipped_in(project: Project) -> None:
    sides = []
    for line in ("line 10", "line 20", "line 30"):
        git(project.root, "checkout", "--quiet", "-B", line.replace(" ", ""), project.base)
        sides.append(project.replace(line, "reviewed"))
    git(project.root, "checkout", "--quiet", "main")
    git(project.root, "merge", "--quiet", *sides)
    project.write("b.txt", "evil\n")
    amend(project)


def a_merge_with_an_empty_root_that_removes_all(project: Project) -> None:
    root = commit_tree(project.root, empty_tree(project.root))
    commit_tree(project.root, root, root, project.base)


def a_merge_with_a_root_that_removes_a_file(project: Project) -> None:
    project.review("c", {"c.txt": "c\n"})
    project.base = git(project.root, "rev-parse", "HEAD")
    tree = git(project.root, "mktree", data=git(project.root, "ls-tree", "HEAD", "c.txt").encode() + b"\n")
    root = commit_tree(project.root, tree)
    commit_tree(project.root, root, root, project.base)


def a_conflict_that_takes_the_old_side(project: Project) -> None:
    git(project.root, "checkout", "--quiet", "-b", "side")
    side = project.replace("line 3", "three")
    git(project.root, "checkout", "--quiet", "main")
    project.base = project.replace("line 3", "a fix")
    commit_tree(project.root, side, project.base, side)


def a_conflict_whose_result_was_reviewed_elsewhere(project: Project) -> None:
    git(project.root, "checkout", "--quiet", "-b", "side")
    side = project.replace("line 3", "three")
    after = project.replace("line 30", "thirty")
    git(project.root, "checkout", "--quiet", "main")
    project.base = project.replace("line 3", "a fix")
    commit_tree(project.root, after, side, project.base)


def a_conflict_in_which_what_was_merged_before_is_lost(project: Project) -> None:
    git(project.root, "checkout", "--quiet", "-b", "side")
    side = project.replace("line 3", "three")
    git(project.root, "checkout", "--quiet", "-b", "other", project.base)
    other = project.replace("line 20", "twenty")
    git(project.root, "checkout", "--quiet", "main")
    project.base = project.replace("line 3", "a fix")
    git(project.root, "checkout", "--quiet", "other")
    git(project.root, "merge", "--quiet", "--no-ff", "main", "-m", "merge")
    assert other != git(project.root, "rev-parse", "HEAD")
    commit_tree(project.root, side, side, "HEAD")


def a_union_merge_that_attributes_of_the_work_tree_ask_for(project: Project) -> None:
    git(project.root, "checkout", "--quiet", "-b", "side")
    project.replace("line 3", "return safe")
    git(project.root, "checkout", "--quiet", "main")
    project.replace("line 3", "return other")
    (project.root / ".git/info").mkdir(exist_ok=True)
    for path in (project.root / ".git/info/attributes", project.root / ".gitattributes"):
        path.write_text("* merge=union\n")
    git(project.root, "merge", "--quiet", "side", "-m", "merge")
    assert "return other\nreturn safe\n" in project.read()


def a_fast_forward_to_an_evil_second_parent(project: Project) -> None:
    project.write("a.txt", "evil\n")
    evil = project.commit("evil")
    commit_tree(project.root, evil, project.base, evil)


def a_replay_by_a_merged_root_of_another_repository(project: Project) -> None:
    project.set_policy(ROOTLESS)
    other = commit_tree(project.root, empty_tree(project.root))
    git(project.root, "reset", "--quiet", "--hard", project.base)
    commit_tree(project.root, project.base, project.base, other)
    base, result = blob_of(project, "HEAD:b.txt"), git(project.root, "hash-object", "-w", "--stdin", data=b"evil\n")
    sign_statement(project, ReviewedFile(path="b.txt", base=base, result=result), repository=[other])
    project.write("b.txt", "evil\n")
    project.commit("replayed")


def a_statement_without_modes_made_a_link(project: Project) -> None:
    (project.root / "c.txt").symlink_to("a.txt")
    project.commit("a link")
    sign_statement(project, ReviewedFile(path="c.txt", result=blob_of(project, "HEAD:c.txt")))


def a_statement_without_modes_made_a_program(project: Project) -> None:
    project.write("c.txt", "c\n")
    (project.root / "c.txt").chmod(0o755)
    project.commit("a program")
    sign_statement(project, ReviewedFile(path="c.txt", result=blob_of(project, "HEAD:c.txt")))


def a_statement_that_does_not_say_what_it_is(project: Project) -> None:
    project.write("c.txt", "c\n")
    project.commit("c")
    file = ReviewedFile(path="c.txt", result=blob_of(project, "HEAD:c.txt"), result_mode="100644")

    def change(payload: bytes) -> bytes:
        statement = json.loads(payload)
        del statement["predicateType"]
        return json.dumps(statement).encode()

    sign_statement(project, file, change=change)


def a_denial_signed_as_a_review(project: Project) -> None:
    project.write("c.txt", "c\n")
    project.commit("c")
    file = ReviewedFile(path="c.txt", result=blob_of(project, "HEAD:c.txt"), result_mode="100644")
    sign_statement(project, file, change=lambda payload: payload.replace(b'result":"approved"', b'result":"denied"'))


def a_removed_line_read_as_an_added_one(project: Project) -> None:
    project.review("no end", {"c.txt": "1\n2\n3\nif user:"})
    project.base = project.review("again", {"c.txt": "1\n2\n3\nif user:+evil()\n4\n5\n6\n"})
    project.review("removed", {"c.txt": "1\n2\n3\n4\n5\n6\n"})
    # Without lengths the removed line `if user:+evil()` is a removed `if user:` and an added `evil()`.
    git(project.root, "reset", "--quiet", "--hard", f"{project.base}~1")
    project.base = git(project.root, "rev-parse", "HEAD")
    project.write("c.txt", "1\n2\n3\nevil()\n")
    project.commit("evil")


def a_review_of_a_file_as_one_of_a_link(project: Project) -> None:
    project.review("a file", {"c.txt": "a.txt"})
    project.review("again", {"c.txt": "b.txt"})
    git(project.root, "reset", "--quiet", "--hard", project.base)
    (project.root / "c.txt").symlink_to("a.txt")
    project.base = project.commit("a link")
    (project.root / "c.txt").unlink()
    (project.root / "c.txt").symlink_to("b.txt")
    project.commit("the link goes elsewhere")


def the_author_in_other_letters(project: Project) -> None:
    project.set_policy(POLICY + "author_counts = false\n")
    project.replace("line 3", "three")
    git(project.root, "commit", "--quiet", "--amend", "--no-edit", "--author=ann <ANN@x.org>")


def a_tree_with_a_name_twice(project: Project) -> None:
    project.replace("line 3", "three")
    entries = git(project.root, "ls-tree", "HEAD").splitlines()
    evil = git(project.root, "hash-object", "-w", "--stdin", data=b"evil\n")

    def entry(mode: str, name: str, blob: str) -> bytes:
        return f"{mode} {name}".encode() + b"\0" + bytes.fromhex(blob)

    parts = []
    for line in entries:
        facts, _, name = line.partition("\t")
        mode, _, blob = facts.split()
        parts.append(entry(mode.lstrip("0"), name, blob))
        parts += [entry("100644", name, evil)] * (name == "a.txt")
    tree = git(project.root, "hash-object", "-w", "-t", "tree", "--literally", "--stdin", data=b"".join(parts))
    commit = git(project.root, "commit-tree", tree, "-p", project.base, "-m", "twice")
    git(project.root, "update-ref", "HEAD", commit)


def a_commit_whose_author_holds_a_nul(project: Project) -> None:
    project.write("a.txt", "evil\n")
    project.commit("evil")
    text = subprocess.run(
        ["git", "-C", str(project.root), "cat-file", "commit", "HEAD"], capture_output=True, check=True
    ).stdout
    data = text.replace(b"author ann", b"author an\0n").replace(b"\n\nevil", b"\nencoding UTF-16LE\n\ne\0vil")
    commit = git(project.root, "hash-object", "-w", "-t", "commit", "--literally", "--stdin", data=data)
    git(project.root, "update-ref", "HEAD", commit)


def a_policy_that_only_the_work_tree_has(project: Project) -> None:
    project.write("a.txt", "evil\n")
    project.commit("evil")
    project.write(POLICY_FILE, POLICY + "people = 0\n")


def replaced_and_grafted_commits(project: Project) -> None:
    good = project.replace("line 3", "three")
    project.write("a.txt", "evil\n")
    project.commit("evil")
    git(project.root, "replace", "HEAD", good)
    (project.root / ".git/info").mkdir(exist_ok=True)
    (project.root / ".git/info/grafts").write_text(f"{git(project.root, 'rev-parse', 'HEAD')}\n")


def certify(project: Project, name: str, *more: str, by: str = "ann", principal: str = "") -> None:
    """Sign with the certificate of a key from now on, where ann's key is the authority that is allowed."""
    key = project.keys / name
    words = ["ssh-keygen", "-q", "-s", str(project.keys / by), "-I", name, "-n", principal or f"{name}@x.org", *more]
    subprocess.run([*words, f"{key}.pub"], check=True)
    project.write("signers", f"*@x.org cert-authority {(project.keys / 'ann.pub').read_text()}")
    project.base = project.commit("signers")
    git(project.root, "config", "user.signingkey", f"{key}-cert.pub")


def a_certificate_of_another_authority(project: Project) -> None:
    certify(project, "eve", by="eve", principal="ann@x.org")
    project.replace("line 3", "three")
    git(project.root, "config", "user.signingkey", str(project.keys / "ann"))
    project.review("the key of the authority signs itself", {"c.txt": "c\n"})


def a_certificate_that_has_expired(project: Project) -> None:
    certify(project, "old", "-V", "-2d:-1d")
    project.replace("line 3", "three")


def one_person_who_signs_an_envelope_twice(project: Project) -> None:
    project.replace("line 3", "three")
    text = project.read()
    git(project.root, "reset", "--quiet", "--hard", project.base)
    project.set_policy(POLICY + "people = 2\n")
    project.write("a.txt", text)
    project.commit("three")
    [name] = project.envelopes()
    envelope = json.loads(git(project.root, "cat-file", "blob", name))
    envelope["signatures"] *= 2
    twice = json.dumps(envelope).replace('{"payload"', '{"payload": "", "payload"')
    new = git(project.root, "hash-object", "-w", "--stdin", data=twice.encode())
    for line in git(project.root, "notes", f"--ref={REVIEWS}", "list").splitlines():
        blob, key = line.split()
        if blob != key:
            git(project.root, "notes", f"--ref={REVIEWS}", "add", "-f", "-m", f"{name}\n{new}", key)


def a_signature_in_another_base64(project: Project) -> None:
    project.replace("line 3", "three")
    [name] = project.envelopes()
    envelope = json.loads(git(project.root, "cat-file", "blob", name))
    envelope["payload"] = envelope["payload"][:-4] + "\n" + envelope["payload"][-4:]
    new = git(project.root, "hash-object", "-w", "--stdin", data=json.dumps(envelope).encode())
    for line in git(project.root, "notes", f"--ref={REVIEWS}", "list").splitlines():
        git(project.root, "notes", f"--ref={REVIEWS}", "add", "-f", "-m", new, line.split()[1])


def a_path_in_another_unicode_form(project: Project) -> None:
    project.review("new", {"caf\u00e9.txt": "c\n"})
    git(project.root, "mv", "caf\u00e9.txt", "cafe\u0301.txt")
    amend(project)


def a_signed_commit_with_a_header_more(project: Project) -> None:
    project.set_policy(POLICY + 'handwritten = "signature"\n')
    project.write("b.txt", "by hand\n")
    project.commit("by hand", "--gpg-sign")
    text = git(project.root, "cat-file", "commit", "HEAD")
    data = text.replace("\ngpgsig ", "\ngpgsigned evil\ngpgsig ").encode() + b"\n"
    commit = git(project.root, "hash-object", "-w", "-t", "commit", "--literally", "--stdin", data=data)
    git(project.root, "update-ref", "HEAD", commit)


ATTACKS = (
    an_octopus_that_begins_with_an_old_commit,
    an_octopus_with_a_line_slipped_in,
    a_merge_with_an_empty_root_that_removes_all,
    a_merge_with_a_root_that_removes_a_file,
    a_conflict_that_takes_the_old_side,
    a_conflict_whose_result_was_reviewed_elsewhere,
    a_conflict_in_which_what_was_merged_before_is_lost,
    a_union_merge_that_attributes_of_the_work_tree_ask_for,
    a_fast_forward_to_an_evil_second_parent,
    a_replay_by_a_merged_root_of_another_repository,
    a_statement_without_modes_made_a_link,
    a_statement_without_modes_made_a_program,
    a_statement_that_does_not_say_what_it_is,
    a_denial_signed_as_a_review,
    a_removed_line_read_as_an_added_one,
    a_review_of_a_file_as_one_of_a_link,
    the_author_in_other_letters,
    a_tree_with_a_name_twice,
    a_commit_whose_author_holds_a_nul,
    a_policy_that_only_the_work_tree_has,
    replaced_and_grafted_commits,
    a_certificate_of_another_authority,
    a_certificate_that_has_expired,
    one_person_who_signs_an_envelope_twice,
    a_signature_in_another_base64,
    a_path_in_another_unicode_form,
    a_signed_commit_with_a_header_more,
)


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.__name__)
def test_an_attack_is_refused(project: Project, attack: Callable[[Project], None]) -> None:
    attack(project)
    code, said = project.verify()
    assert code == 3, said
    assert "not reviewed" in said


def an_octopus(project: Project) -> None:
    sides = []
    for line in ("line 10", "line 20", "line 30"):
        git(project.root, "checkout", "--quiet", "-B", line.replace(" ", ""), project.base)
        sides.append(project.replace(line, "reviewed"))
    git(project.root, "checkout", "--quiet", "main")
    git(project.root, "merge", "--quiet", *sides)


def a_history_from_elsewhere(project: Project) -> None:
    git(project.root, "checkout", "--quiet", "--orphan", "elsewhere")
    git(project.root, "rm", "--quiet", "-rf", ".")
    project.review("a root", {"c.txt": "c\n"}, sign=False)
    git(project.root, "checkout", "--quiet", "main")
    git(project.root, "merge", "--quiet", "--allow-unrelated-histories", "elsewhere", "-m", "merge")
    assert run("notes", "elsewhere")[0] == 0


def a_conflict_for_the_side_that_was_there(project: Project) -> None:
    git(project.root, "checkout", "--quiet", "-b", "side")
    side = project.replace("line 3", "three")
    git(project.root, "checkout", "--quiet", "main")
    project.base = project.replace("line 3", "a fix")
    commit_tree(project.root, project.base, side, project.base)


def a_certificate(project: Project) -> None:
    certify(project, "eve")
    project.replace("line 3", "three")


def several_principals(project: Project) -> None:
    line = project.signers("ann").replace("ann@x.org", "ann@home.org,ann@x.org")
    project.write("signers", 'ann@x.org namespaces="git"' + line[line.index(" ") :] + line)
    project.base = project.commit("signers")
    project.replace("line 3", "three")


def a_name_for_the_repository_in_the_range(project: Project) -> None:
    project.set_policy(ROOTLESS)
    project.review("named", {POLICY_FILE: ROOTLESS + 'repository = "named"\n'})
    project.replace("line 3", "three")


def odd_names(project: Project) -> None:
    project.review("new", {"caf\u00e9 [x].txt": "c\n", "-o": "c\n", "d/:(top)": "c\n"})


def line_endings_that_git_converts(project: Project) -> None:
    project.write(".gitattributes", "*.bat text eol=crlf\n")
    project.write("run.bat", "one\r\ntwo\r\n")
    project.base = project.commit("a batch file")
    project.review("edited", {"run.bat": "one\r\n2\r\n", "new.bat": "x\r\n"})
    assert git(project.root, "cat-file", "blob", "HEAD:run.bat") == "one\n2"


def a_program_and_a_link(project: Project) -> None:
    project.write("run", "#!/bin/sh\n")
    (project.root / "run").chmod(0o755)
    (project.root / "link").symlink_to("a.txt")
    project.base = project.commit("a program")
    project.review("edited", {"run": "#!/bin/sh\necho\n"})


def a_forged_statement_beside(project: Project) -> None:
    """It claims the whole way at once, so that the true one is not looked for."""
    blobs = [blob_of(project, "HEAD:a.txt")]
    for line in ("line 3", "line 5", "line 7"):
        project.write("a.txt", project.read().replace(f"{line}\n", "x\n"))
        project.commit("step")
        blobs.append(blob_of(project, "HEAD:a.txt"))
    sign_statement(project, ReviewedFile(path="a.txt", base=blobs[0], result=blobs[-1]), signer="eve")
    for base, result in pairwise(blobs):
        sign_statement(project, ReviewedFile(path="a.txt", base=base, result=result))
    git(project.root, "reset", "--quiet", "--soft", project.base)
    git(project.root, "commit", "--quiet", "-m", "squashed")


@pytest.mark.parametrize(
    "change",
    [
        an_octopus,
        a_history_from_elsewhere,
        a_conflict_for_the_side_that_was_there,
        a_certificate,
        several_principals,
        a_name_for_the_repository_in_the_range,
        odd_names,
        line_endings_that_git_converts,
        a_program_and_a_link,
        a_forged_statement_beside,
    ],
    ids=lambda change: change.__name__,
)
def test_reviewed_commits_are_accepted_in_odd_repositories(
    project: Project, change: Callable[[Project], None]
) -> None:
    change(project)
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
    git(project.root, "checkout", "--quiet", "-b", "side")
    project.replace("line 3", "three")
    git(project.root, "checkout", "--quiet", "main")
    project.review("renamed", {"b.txt": None, "c.txt": "b\n"})
    git(project.root, "merge", "--quiet", "side", "-m", "merge")
    before = project.verify()
    assert before[0] == 0, before[1]
    program, hooks = tmp_path / "program", tmp_path / "hooks"
    program.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\nexit 1\n")
    hooks.mkdir()
    for name in ("reference-transaction", "post-index-change", "post-checkout", "pre-auto-gc"):
        shutil.copy(program, hooks / name)
        (hooks / name).chmod(0o755)
    program.chmod(0o755)
    attributes = "* text=auto diff=it filter=it merge=it -merge\n*.txt export-ignore working-tree-encoding=UTF-16\n"
    (tmp_path / "attributes").write_text(attributes)
    (project.root / ".gitattributes").write_text(attributes)
    (project.root / ".mailmap").write_text("Eve <eve@x.org> <ann@x.org>\n")
    (project.root / ".git/more").write_text(f'[core]\n\tfsmonitor = "{program}"\n')
    (project.root / ".signoff.toml").write_text("this is no TOML")
    (project.root / "pyproject.toml").write_text("nor this")
    (project.root / "sitecustomize.py").write_text("raise SystemExit")
    for key, value in CONFIGURATION.items():
        value = value.replace("PROGRAM", str(program)).replace("FOLDER", str(hooks))
        git(
            project.root, "config", key.replace("PROGRAM", "x"), value.replace("ATTRIBUTES", f"{tmp_path}/attributes")
        )
    assert project.verify() == before
    assert not (tmp_path / "ran").exists()


def test_a_range_is_never_taken_as_an_option(project: Project) -> None:
    project.replace("line 3", "three")
    for words in (("--output=x",), ("--", "--output=x"), ("--", "HEAD..--output=x"), ("--notes=-x",)):
        code, said = run("verify", *words)
        assert code in (1, 2), said
        assert not (project.root / "x").exists()
        assert "Traceback" not in said


def test_a_notes_reference_with_unusual_spaces_is_read(project: Project) -> None:
    project.replace("line 3", "three")
    git(project.root, "update-ref", "refs/notes/a\u2003b/signoff-reviews", REVIEWS)
    git(project.root, "update-ref", "-d", REVIEWS)
    assert project.verify()[0] == 0


def test_notes_of_too_many_bytes_are_refused_in_one_line(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(review_notes, "_MAX_BYTES", 1 << 20)
    project.replace("line 3", "three")
    names = [
        git(project.root, "hash-object", "-w", "--stdin", data=b"%d" % number + b"x" * (60 << 10))
        for number in range(20)
    ]
    for line in git(project.root, "notes", f"--ref={REVIEWS}", "list").splitlines():
        git(project.root, "notes", f"--ref={REVIEWS}", "add", "-f", "-m", "\n".join(names), line.split()[1])
    code, said = project.verify()
    assert code == 1
    assert len(said.splitlines()) == 1 and "have more than 1,048,576 bytes" in said


def test_too_many_invalid_signatures_are_refused_in_one_line(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.attestation.commit_verification._MAX_REFUSED", 3)
    project.write("c.txt", "c\n")
    project.commit("c")
    for number in range(5):
        file = ReviewedFile(path="c.txt", base=f"{number:040x}", result=blob_of(project, "HEAD:c.txt"))
        sign_statement(project, file, signer="eve")
    code, said = project.verify()
    assert code == 1
    assert len(said.splitlines()) == 1


def test_a_partial_clone_is_reported(project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project.replace("line 3", "three")
    git(project.root, "config", "uploadpack.allowFilter", "true")
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "--quiet", "--filter=blob:none", f"file://{project.root}", str(clone))
    monkeypatch.chdir(clone)
    code, said = project.verify()
    assert code == 1
    assert "partial" in said


def test_a_repository_of_sha256_is_verified(tmp_path: Path, keys: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SIGNOFF_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("GIT_DEFAULT_HASH", "sha256")
    project = Project(tmp_path / "ws", keys)
    monkeypatch.chdir(project.root)
    assert len(project.base) == 64
    project.replace("line 3", "three")
    code, said = project.verify()
    assert code == 0, said


def test_a_linked_work_tree_is_verified(project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project.replace("line 3", "three")
    git(project.root, "worktree", "add", "--quiet", "--detach", str(tmp_path / "linked"))
    monkeypatch.chdir(tmp_path / "linked")
    assert project.verify()[0] == 0


def test_file_names_that_are_not_utf_8_are_reported(project: Project) -> None:
    (project.root / os.fsdecode(b"\xff\n.txt")).write_text("x\n")
    project.commit("odd")
    for form in ("text", "github", "sarif", "badge"):
        code, said = project.verify("--format", form)
        assert code == 3, said
        assert "Traceback" not in said
    assert json.loads(project.verify("--json")[1])["covered"] is False
