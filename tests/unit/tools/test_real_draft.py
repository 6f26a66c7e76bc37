"""The tools over the proposals engine itself: what the model is told is what is staged."""

import json
import os
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.proposals.files.overlay import ContentStore
from app.proposals.proposal_service import ProposalService
from app.proposals.stack.draft import Draft
from app.proposals.text.document import MAX_BYTES
from app.proposals.values.origin import OriginKind, ProposalOrigin
from app.proposals.values.proposal_errors import EditRefused, NothingToStage
from app.sandbox.captured_changes import FileOrLink, PathChange
from app.tools.base.contract import PermissionAnswer, ToolCallNotPermitted, ToolError
from app.workspace.paths import Workspace
from tests.unit.proposals.memory_store import MemoryStore
from tests.unit.tools.memory_draft import Bench


@pytest.fixture
def service(tmp_path: Path) -> ProposalService:
    (tmp_path / "ws/src").mkdir(parents=True)
    (tmp_path / "ws/src/a.py").write_text("one\ntwo\nthree\n")
    (tmp_path / "ws/b.py").write_text("b\n")
    return ProposalService(Workspace(tmp_path / "ws"), MemoryStore(), tmp_path / "lock")


@pytest.fixture
def draft(service: ProposalService) -> Draft:
    return service.new_draft("s1")


@pytest.fixture
def bench(tmp_path: Path, draft: Draft) -> Bench:
    return Bench(Workspace(tmp_path / "ws"), draft)


async def test_read_edit_read_again(bench: Bench, draft: Draft) -> None:
    version = (await bench.call("read_file", path="src/a.py")).reads["src/a.py"]
    edits = [{"old": "two", "new": "TWO"}]
    output = await bench.call("edit_file", path="src/a.py", edits=edits, version=version[:12], summary="Shout")
    told = json.loads(output.text)
    assert told["status"] == "staged"
    assert told["files"] == [{"path": "src/a.py", "op": "edit", "added": 1, "removed": 1}]
    after = await bench.call("read_file", path="src/a.py")
    assert "2\tTWO" in after.text
    assert f"staged edits of {told['proposal']}" in after.text
    assert after.reads["src/a.py"] != version
    assert (bench.workspace.root / "src/a.py").read_text() == "one\ntwo\nthree\n"
    assert draft.has_changes
    assert draft.summaries == ["Shout"]


async def test_the_reported_content_is_what_an_approval_writes(
    bench: Bench, service: ProposalService, draft: Draft
) -> None:
    await bench.call("write_file", path="new/c.py", content="c\n")
    await bench.call("rename_file", path="b.py", new_path="d.py")
    listing, pending = (await bench.call("list_files")).text, "  [staged, not on disk yet]"
    assert listing == f"d.py{pending}\nnew/c.py{pending}\nsrc/a.py"
    service.approve(service.stage(draft, "Both").id)
    listing = (await bench.call("list_files")).text.replace(pending, "")
    assert listing.split("\n") == sorted(bench.workspace.walk_files()) == ["d.py", "new/c.py", "src/a.py"]


@pytest.mark.parametrize("pending", [False, True])
async def test_a_file_that_is_too_large_is_refused_without_reading(
    bench: Bench, service: ProposalService, monkeypatch: pytest.MonkeyPatch, pending: bool
) -> None:
    path = bench.workspace.root / "large.js"
    path.write_text("x" * MAX_BYTES + "yz\n")
    if pending:
        before, after = (FileOrLink(data, 0o644) for data in (path.read_bytes(), b"y" * (MAX_BYTES + 9)))
        service.stage_changes([PathChange("large.js", before, after)], ProposalOrigin(kind=OriginKind.PATCH), "")
    # Not `os.read` itself: a finalizer of another test that runs meanwhile may start a process, which reads.
    unreadable = SimpleNamespace(**{**vars(os), "read": lambda *_: pytest.fail("it was read")})
    monkeypatch.setattr("app.workspace.reading.os", unreadable)
    monkeypatch.setattr(ContentStore, "get", lambda *_: pytest.fail("it was read"))
    calls: dict[str, dict[str, object]] = {
        "read_file": {"path": "large.js"},
        "edit_file": {"path": "large.js", "edits": [{"old": "y", "new": "z"}], "summary": "s"},
        "apply_patch": {"patch": "--- a/large.js\n+++ b/large.js\n@@ -1 +1 @@\n-y\n+z\n", "summary": "s"},
    }
    for name, arguments in calls.items():
        with pytest.raises(ToolError, match=r"larger than 20,971,520 bytes|large: files over 20,971,520 bytes"):
            await bench.call(name, **arguments)


TEXTS = ["one\ntwo\n", "ONE\ntwo\n", "one\r\ntw", "two\r\none", "", "\ufeffne\n123", "a\0b\n1234", "one\ntwo\n\u00e9"]
"""Most of them have the same size."""


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["write", "replace", "stage", "none"]),
            st.sampled_from(["a.py", "b.py"]),
            st.sampled_from(TEXTS),
            st.sampled_from([None, 1, 2]),
        ),
        min_size=1,
        max_size=12,
    )
)
async def test_a_read_returns_the_current_content(
    tmp_path: Path, steps: list[tuple[str, str, str, int | None]]
) -> None:
    """Files change between reads without any sign in their size or times; who reads for the first time is right."""
    root = tmp_path / "reads"
    root.mkdir(exist_ok=True)
    store = MemoryStore()
    workspace = Workspace(root)
    for path in ("a.py", "b.py"):
        (root / path).write_text("one\ntwo\n")
    service = ProposalService(workspace, store, tmp_path / "lock")
    bench = Bench(workspace, service.new_draft("s1"))
    for step, path, text, start in steps:
        match step:
            case "write":
                (root / path).write_bytes(text.encode())
            case "replace":
                (root / "other").write_bytes(text.encode())
                (root / "other").replace(root / path)
            case "stage":
                draft = service.new_draft("s1")
                with suppress(EditRefused, NothingToStage):
                    draft.write(path, text)
                    service.stage(draft, "")
        os.utime(root / path, (1, 1))
        bench.draft = service.new_draft("s1")
        fresh = Bench(workspace, ProposalService(workspace, store, tmp_path / "lock").new_draft("s1"))
        found = [await outcome(one, path=path, start_line=start) for one in (bench, fresh)]
        assert found[0] == found[1]


async def outcome(bench: Bench, **arguments: object) -> object:
    try:
        return await bench.call("read_file", **arguments)
    except ToolError as error:
        return str(error)


async def test_a_patch(bench: Bench) -> None:
    patch = "--- a/src/a.py\n+++ b/src/a.py\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n"
    told = json.loads((await bench.call("apply_patch", patch=patch)).text)
    assert told["files"] == [{"path": "src/a.py", "op": "edit", "added": 1, "removed": 1}]


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("read_file", {"path": "src"}, r"src is a folder\. Use list_files"),
        ("edit_file", {"path": "src/a.py", "edits": [{"old": "gone", "new": "x"}], "summary": "no"}, "gone|not"),
        ("edit_file", {"path": "missing", "edits": [{"old": "a", "new": "x"}]}, "does not exist"),
        ("write_file", {"path": "b.py", "content": "b\n"}, "already"),
        ("delete_file", {"path": "src"}, "folder"),
        ("rename_file", {"path": "b.py", "new_path": "src/a.py"}, "exists already"),
        ("apply_patch", {"patch": "hello"}, "."),
        ("apply_patch", {"patch": " \n"}, "This is not a patch"),
    ],
)
async def test_refusals_are_errors_and_stage_nothing(
    bench: Bench, draft: Draft, name: str, arguments: dict[str, object], message: str
) -> None:
    with pytest.raises(ToolError, match=message):
        await bench.call(name, **arguments)
    assert not draft.has_changes and draft.summaries == []


async def test_search_sees_pending_edits_only(bench: Bench, service: ProposalService, draft: Draft) -> None:
    await bench.call("edit_file", path="src/a.py", edits=[{"old": "two", "new": "zwei"}])
    await bench.call("write_file", path="new.py", content="zwei\n")
    found = (await bench.call("search_text", pattern="zwei")).text
    assert "src/a.py" in found and "new.py" in found
    assert "src/a.py" not in (await bench.call("search_text", pattern="two")).text
    service.stage(draft, "German")
    later = Bench(bench.workspace, service.new_draft("s2"))
    assert "new.py" in (await later.call("search_text", pattern="zwei")).text
    await later.call("rename_file", path="new.py", new_path="neu.py")
    renamed = (await later.call("search_text", pattern="zwei")).text
    assert "neu.py" in renamed and "new.py" not in renamed


SECRETS = (".env", "a/.env", "b/.env", "i/.env", "new/.env", "sp ace/.env", "é/.env", "AB/id_rsa")
TOKEN = "hunter2"
SALT = "pepper42"
"""In every secret, and in no patch: what a refusal quotes of a file shows it."""


@st.composite
def spelled(draw: st.DrawFn, name: str, prefix: str) -> str:
    """A name as some tool writes it in a header: with a prefix, quoted, in octal, or with a time behind it."""
    name = prefix + name
    if draw(st.booleans()):
        octal = draw(st.sets(st.integers(0, len(name.encode()))))
        bytes_ = enumerate(name.encode())
        name = "".join(f"\\{byte:03o}" if at in octal or byte > 126 else chr(byte) for at, byte in bytes_)
        name = f'"{name}"'
    return name + draw(st.sampled_from(["", "", "\t2026-01-01 10:00:00 +0000", " ", "\r"]))


@st.composite
def patches(draw: st.DrawFn) -> str:
    """A patch that touches a secret in some way, in any dialect and spelling."""
    path = draw(st.sampled_from(SECRETS))
    guess = draw(st.sampled_from(["guess", f"KEY={TOKEN}", "KEY=hunter3", ""]))
    first, second = draw(
        st.sampled_from(
            [("a/", "b/"), ("i/", "w/"), ("c/", "i/"), ("old/", "new/"), ("1/", "2/"), ("", ""), ("./", "./")]
        )
    )
    hunk = draw(st.sampled_from([f"@@ -1 +1 @@\n-{guess}\n+x\n", f"@@\n-{guess}\n+x\n", f"-{guess}\n+x\n"]))
    old, new = draw(spelled(path, first)), draw(spelled(path, second))
    moved = draw(spelled("moved", second))
    plain = draw(spelled(path, ""))
    gap = draw(st.sampled_from([" ", "\t", "  ", " \t"]))
    form = draw(
        st.sampled_from(
            [
                f"--- {old}\n+++ {new}\n{hunk}",
                f"---{gap}{old}\n+++{gap}{new}\n{hunk}",
                f"--- {old}\n+++ /dev/null\n{hunk.replace('+x', '-x')}",
                f"diff --git {old} {new}\n--- {old}\n+++ {new}\n{hunk}",
                f"diff --git {old} {moved}\nrename from {old}\nrename to {moved}\n",
                f"diff --git {old} {moved}\nrename from {plain}\nrename to moved\n{hunk}",
                f"diff --git {old} {new}\nold mode 100644\nnew mode 100755\n",
                f"diff --git {old} {new}\ndeleted file mode 100644\n",
                f"*** Begin Patch\n*** Update File:{gap}{new}\n{hunk}*** End Patch\n",
                f"*** Begin Patch\n*** Update File:{gap}{path}\n{hunk}*** End Patch\n",
                f"*** Begin Patch\n*** Update File: {path}\n*** Move to: moved\n{hunk}*** End Patch\n",
                f"*** Begin Patch\n*** Delete File:{gap}{path}\n*** End Patch\n",
                f"  *** Begin Patch\n *** Update File: {path}\n{hunk} *** End Patch\n",
            ]
        )
    )
    return draw(st.sampled_from(["", "Look:\n\n```diff\n"])) + form


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(patch=patches())
async def test_a_patch_asks_for_permission_for_each_secret_it_reads(tmp_path: Path, patch: str) -> None:
    root = tmp_path / "secrets"
    if not root.exists():
        for name in SECRETS:
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(f"KEY={TOKEN}\n{SALT}\n")
    workspace = Workspace(root)
    draft = ProposalService(workspace, MemoryStore(), tmp_path / "lock").new_draft("s1")
    unwilling = Bench(workspace, draft)
    try:
        said = (await unwilling.call("apply_patch", patch=patch)).text
    except (ToolError, ToolCallNotPermitted) as error:
        said = str(error)
    assert SALT not in said
    assert not set(draft.changed_paths) & set(SECRETS), "nothing of a secret is touched without a yes"

    willing = Bench(workspace, draft, PermissionAnswer(True))
    with suppress(ToolError):
        await willing.call("apply_patch", patch=patch)
    assert set(draft.changed_paths) & set(SECRETS) <= {asked.detail for asked in willing.asked}


STAGED = {
    ".env": f"--- /dev/null\n+++ b/.env\n@@ -0,0 +1 @@\n+KEY={TOKEN}\n",
    "plain.txt": "diff --git a/.env b/plain.txt\nrename from .env\nrename to plain.txt\n",
    "a/id_rsa": "diff --git a/plain.txt b/a/id_rsa\nrename from plain.txt\nrename to a/id_rsa\n",
    "notes.txt": f"--- /dev/null\n+++ b/notes.txt\n@@ -0,0 +1,2 @@\n+-----BEGIN PRIVATE KEY-----\n+{TOKEN}\n",
}
"""Patches of the user's that put a secret into the overlay, by its path there."""


def empty_workspace(tmp_path: Path) -> tuple[ProposalService, Workspace]:
    (tmp_path / "ws").mkdir()
    workspace = Workspace(tmp_path / "ws")
    return ProposalService(workspace, MemoryStore(), tmp_path / "lock"), workspace


@pytest.mark.parametrize(("path", "patch"), STAGED.items())
async def test_a_secret_in_a_users_proposal_needs_permission_and_is_left_out_of_a_search(
    tmp_path: Path, path: str, patch: str
) -> None:
    service, workspace = empty_workspace(tmp_path)
    if "rename from" in patch:
        source = patch.partition("rename from ")[2].partition("\n")[0]
        (workspace.root / source).write_text(f"KEY={TOKEN}\n")
    service.stage_patch(patch)
    calls: dict[str, dict[str, object]] = {
        "read_file": {},
        "search_text": {"pattern": TOKEN},
        "edit_file": {"edits": [{"old": "guess", "new": "x"}]},
        "write_file": {"content": f"KEY={TOKEN}\n"},
        "rename_file": {"new_path": "harmless.txt"},
        "delete_file": {},
    }
    for name, arguments in calls.items():
        bench = Bench(workspace, service.new_draft("s1"))
        with pytest.raises(ToolCallNotPermitted) as caught:
            await bench.call(name, path=path, **arguments)
        assert TOKEN not in str(caught.value)
        assert [asked.detail for asked in bench.asked] == [path], name
        assert not service.new_draft("s1").has_changes
    found = (await Bench(workspace, service.new_draft("s1")).call("search_text", pattern=TOKEN)).text
    assert "no line matches" in found.lower() and path in found


async def test_a_secret_staged_by_the_same_session_needs_no_permission(tmp_path: Path) -> None:
    service, workspace = empty_workspace(tmp_path)
    await Bench(workspace, draft := service.new_draft("s1")).call("write_file", path=".env", content="KEY=\n")
    proposal = service.stage(draft, "Keys")
    own, other = Bench(workspace, service.new_draft("s1")), Bench(workspace, service.new_draft("s2"))
    assert "KEY=" in (await own.call("read_file", path=".env")).text
    assert not own.asked
    with pytest.raises(ToolCallNotPermitted):
        await other.call("read_file", path=".env")
    service.replace_proposed_text(proposal.id, ".env", f"KEY={TOKEN}\n")
    after = Bench(workspace, service.new_draft("s1"))
    with pytest.raises(ToolCallNotPermitted):
        await after.call("read_file", path=".env")


async def test_a_revision_of_a_users_patch_keeps_its_secret_protected(tmp_path: Path) -> None:
    service, workspace = empty_workspace(tmp_path)
    theirs = service.stage_patch(STAGED[".env"] + "--- /dev/null\n+++ b/a.py\n@@ -0,0 +1,1 @@\n+a\n")
    await Bench(workspace, draft := service.new_draft("s1")).call("write_file", path="a.py", content="b\n")
    answer = service.stage(draft, "Better", [theirs.id])
    assert answer.supersedes == theirs.id and ".env" in {change.path for change in answer.files}
    with pytest.raises(ToolCallNotPermitted):
        await Bench(workspace, service.new_draft("s1")).call("read_file", path=".env")


async def test_a_report_on_a_users_patch_quotes_no_secret(tmp_path: Path) -> None:
    service, workspace = empty_workspace(tmp_path)
    (workspace.root / ".env").write_text(f"KEY={TOKEN}\n")
    patch = "--- a/.env\n+++ b/.env\n@@ -1 +1,2 @@\n KEY=hunter2\n+B=1\n"
    theirs = service.stage_patch(patch + "--- /dev/null\n+++ b/a.py\n@@ -0,0 +1 @@\n+a\n")
    result = service.approve(theirs.id, ["1"])
    assert [fact.landed for fact in result.hunks] == [True, False]
    assert not any(TOKEN in fact.excerpt for fact in result.hunks)
