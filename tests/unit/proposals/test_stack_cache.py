"""What waits is looked at once, not once for each proposal more; and nothing comes of it that a fresh look would not
come to."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.proposals.files.filesystem import DiskFile, PosixFilesystem, make_file_version
from app.proposals.files.overlay import ContentStore
from app.proposals.locate.matching import TextReplacement
from app.proposals.values.models import FileVersion, Proposal, ProposalState
from app.proposals.values.proposal_errors import EditRefused, MissingContent, ProposalError
from tests.unit.proposals.bench import Bench, numbered
from tests.unit.proposals.memory_store import MemoryStore

Make = Callable[..., Bench]
MANY = 20


class CountingDisk(PosixFilesystem):
    """Counts the files that it reads."""

    reads = 0

    def read(self, path: str, limit: int | None = None) -> DiskFile | None:
        self.reads += 1
        return super().read(path, limit)


@pytest.mark.parametrize("kind", ["an old file", "a new file", "two files in turn"])
def test_staging_on_a_file_does_not_reread_pending_proposals(bench: Make, kind: str) -> None:
    store = MemoryStore()
    site = bench({"a.txt": numbered(2 * MANY), "b.txt": numbered(2 * MANY)}, store=store)
    disk = CountingDisk(site.root, site.workspace.read_limit)
    site.reopened(disk)
    if kind == "a new file":
        site.write(**{"a.txt": None})
        site.write(**{"a.txt": numbered(2 * MANY)})
    names = ["a.txt", "b.txt"] if kind == "two files in turn" else ["a.txt"]

    def stage(line: int) -> Proposal:
        return site.edit(names[line % len(names)], (f"line {line}\n", f"changed {line}\n"))

    for line in range(1, 5):
        stage(line)
    store.handed_out = disk.reads = 0
    proposals = [stage(line) for line in range(5, MANY)]
    assert store.handed_out == 0
    assert disk.reads <= 4 * MANY
    assert proposals[-1].files[0].stacked_on[-1] == proposals[-1 - len(names)].id
    for proposal in store.proposals():
        site.service.approve(proposal.id)
    assert b"".join(site.read(name) for name in names).count(b"changed") == MANY - 1


def test_edit_repeated_after_a_partial_denial_is_known(bench: Make) -> None:
    site = bench({"a.txt": numbered(30)})
    site.edit("a.txt", ("line 5\n", "five\n"), ("line 25\n", "twenty-five\n"))
    site.service.deny("P1", ["1"])
    site.edit("a.txt", ("line 15\n", "fifteen\n"))
    again = site.edit("a.txt", ("line 5\n", "five\n"))
    assert [hunk.repeat_of for hunk in again.hunks] == ["P1"]


def test_stacks_joined_by_a_proposal_are_rebased_together(bench: Make) -> None:
    site = bench({name: numbered(30) for name in ("a.txt", "b.txt", "c.txt")})

    def edit(line: int, *names: str) -> None:
        draft = site.service.new_draft("session")
        for name in names:
            draft.edit(name, [TextReplacement(f"line {line}\n", f"changed {line}\n")])
        site.service.stage(draft, "Edit")

    edit(5, "a.txt")
    edit(5, "b.txt", "c.txt")
    edit(15, "a.txt", "b.txt")
    site.put(**{"c.txt": numbered(30, l1="from elsewhere")})
    edit(25, "a.txt")
    assert [change.rebased for change in site.service.get("P2").files] == [False, True]


@pytest.mark.parametrize("change", ["a file has the folder's name", "one more file in the folder"])
def test_path_that_blocks_a_new_file_is_noticed(bench: Make, change: str) -> None:
    site = bench({"x/y.txt": "old\n"})
    if change == "one more file in the folder":
        site.write(**{"x/y.txt": None, "x": numbered(9)})
        name = "x"
    else:
        site.write(**{"new/y.txt": numbered(9)})
        name = "new/y.txt"
    site.edit(name, ("line 3\n", "three\n"))
    site.put(**({"x/z.txt": "more\n"} if name == "x" else {"new": "a file\n"}))
    with suppress(ProposalError, EditRefused):
        site.edit(name, ("line 6\n", "six\n"))
    assert site.service.get("P1").state is ProposalState.STALE


names = st.sampled_from(["a.txt", "b.txt", "d/c.txt"])
steps = st.one_of(
    st.tuples(st.just("edit"), names, st.integers(1, 6)),
    st.tuples(st.just("write"), names, st.integers(0, 3)),
    st.tuples(st.just("delete"), names, st.just(0)),
    st.tuples(st.just("move"), names, st.integers(0, 2)),
    st.tuples(st.just("edit two"), names, st.integers(1, 6)),
    st.tuples(st.just("approve"), st.just(""), st.integers(1, 9)),
    st.tuples(st.just("approve one"), st.just(""), st.integers(1, 9)),
    st.tuples(st.just("deny"), st.just(""), st.integers(1, 9)),
    st.tuples(st.just("undo"), st.just(""), st.integers(1, 9)),
    st.tuples(st.just("elsewhere"), names, st.integers(1, 6)),
    st.tuples(st.just("on disk"), names, st.integers(0, 6)),
)


def take(site: Bench, step: tuple[str, str, int], other: Bench | None) -> str:
    """One step of a user, a model, another process or an editor; what went wrong."""
    kind, name, number = step
    service, decided = site.service, f"P{number}"
    steps: dict[str, Callable[[], object]] = {
        "edit": lambda: site.edit(name, (f"line {number}\n", f"line {number} again\n")),
        "write": lambda: site.write(**{name: numbered(number)}),
        "delete": lambda: site.write(**{name: None}),
        "move": lambda: site.rename(name, ("a.txt", "m.txt", "d/m.txt")[number]),
        "edit two": lambda: lengthen(site, ("a.txt", name), f"tail {number}\n"),
        "approve": lambda: service.approve(decided),
        "approve one": lambda: service.approve(decided, ["1"]),
        "deny": lambda: service.deny(decided),
        "undo": lambda: service.undo(decided),
        "elsewhere": lambda: (other or site).edit(name, (f"line {number}\n", f"line {number} elsewhere\n")),
        "on disk": lambda: change(site, name, number),
    }
    try:
        steps[kind]()
    except (ProposalError, EditRefused, OSError) as error:
        return f"{type(error).__name__}: {error}"
    return ""


def lengthen(site: Bench, names: Sequence[str], tail: str) -> None:
    draft = site.service.new_draft("session")
    for name in dict.fromkeys(names):
        draft.write(name, (draft.read(name).content or b"").decode() + tail)
    site.service.stage(draft, "Two")


def change(site: Bench, name: str, number: int) -> None:
    """As an editor does: another text, or none any more."""
    if number:
        site.put(**{name: numbered(5, **{f"l{number}": f"disk {number}"})})
    else:
        (site.root / name).unlink(missing_ok=True)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=st.lists(steps, min_size=3, max_size=14))
def test_cache_is_transparent(tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, str, int]]) -> None:
    """One service all the way, against one that is opened anew for every step and so has nothing kept."""
    folder: Path = tmp_path_factory.mktemp("stacks")
    sites = []
    for name in ("kept", "fresh"):
        (folder / name).mkdir()
        sites.append(Bench(folder / name, {"a.txt": numbered(6), "b.txt": numbered(6)}))
    kept, fresh = sites
    other = Bench(folder / "kept", store=kept.store)
    for step in steps:
        fresh.reopened()
        assert take(kept, step, other) == take(fresh, step, None), step
        assert kept.tree() == fresh.tree()
        ours, theirs = (
            [
                each.model_copy(update={"created": 0.0, "workspace": ""}).model_dump_json()
                for each in site.store.proposals()
            ]
            for site in sites
        )
        assert ours == theirs, step


def test_missing_content_is_reported_in_plain_text(bench: Callable[..., Bench]) -> None:
    with pytest.raises(MissingContent, match="The stored content 000000000000 is missing or damaged"):
        ContentStore(bench().store).get(FileVersion(sha256="0" * 64, size=1))


def test_a_single_proposal_is_applied_on_its_own_stack_only(bench: Make) -> None:
    site = bench({"a": "one\ntwo\nthree\n", "b": "b\n"})
    first = site.edit("a", ("one", "1")).id
    other = site.edit("b", ("b", "B")).id
    second = site.edit("a", ("three", "3")).id
    third = site.edit("a", ("two", "2")).id

    def texts(proposal: str) -> dict[str, bytes | None]:
        versions = site.service.versions_to_check(proposal)
        return {path: leaf.data if leaf else None for path, leaf in versions.after.items()}

    assert texts(first) == {"a": b"1\ntwo\nthree\n"}
    assert texts(other) == {"b": b"B\n"}
    assert texts(second) == {"a": b"1\ntwo\n3\n"}
    assert texts(third) == {"a": b"1\n2\n3\n"}


def test_old_cached_contents_are_dropped(bench: Callable[..., Bench], monkeypatch: pytest.MonkeyPatch) -> None:
    contents = ContentStore(bench().store)
    read = make_file_version(b"read and nowhere else", 0o644)
    contents.cache_content(read.sha256, b"read and nowhere else")
    old = [contents.add(b"%d" % number * 100_000, 0o644) for number in range(9)]
    contents.save()
    monkeypatch.setattr("app.proposals.files.overlay.OLD_SECONDS", -1.0)
    contents.add(b"new", 0o644)
    contents.save()
    assert [contents.get(version) for version in old] == [b"%d" % number * 100_000 for number in range(9)]
    assert contents.get(read) == b"read and nowhere else"
    megabyte = b"m" * 1024 * 1024
    later = [f"{number:064x}" for number in range(1, 10)]
    for sha256 in later:
        contents.cache_content(sha256, megabyte)
    assert contents.find_by_prefix(read.sha256) is None
    assert [contents.find_by_prefix(sha256) for sha256 in later] == [None, *(8 * [megabyte])]
