"""Verify that the changes of commits were reviewed: follow blobs through signed reviews, from git alone."""

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from time import time

from app.attestation.review_notes import StatementNotes
from app.attestation.review_policy import POLICY_PATH, ReviewPolicy, allowed_signers, committed_policy
from app.attestation.signatures import COMMIT_NAMESPACE, SignatureVerifier
from app.attestation.statement import HunkDigests, ReviewedFile, SignedReview, StatementError, hunk_digests
from app.git.blobs import BlobPair, TreeEntry, git_mode, parse_raw_diff
from app.git.borrowed_repository import BorrowedRepository
from app.git.run_git import GitFailed
from app.proposals.values.record_entries import blob_id
from app.sandbox.captured_changes import Leaf, PathChange
from app.text.plural import plural

_PASSED = "passed"
_ROUNDS = 256
"""Reviews in a row on one file that are followed back."""
_FIELDS = 6
_SHOWN = 7
"""Digits of a commit's id."""
_MOST_FILES = 1_000_000
_MOST_REFUSED = 1_000
"""Statements without a good signature that are looked at, at some milliseconds each."""


@dataclass(frozen=True, slots=True)
class AcceptedReview:
    """A review that is signed by an allowed key and meets the policy."""

    signer: str
    """The principal of the key."""
    key: str
    review: SignedReview
    file: ReviewedFile


@dataclass(slots=True)
class FileVerification:
    """Whether the change of one file in a commit was reviewed."""

    path: str
    reviews: list[AcceptedReview] = field(default_factory=list)
    """By which it is covered; empty if it is not."""
    rebased: bool = False
    """Its hunks were reviewed on another base."""
    problem: str = ""
    """What is not covered, as a phrase; empty if all is."""
    lines: list[int] = field(default_factory=list)
    """First lines of the hunks that are not covered, in the file after the commit."""

    @property
    def covered(self) -> bool:
        """Return whether all of its change is."""
        return not self.problem


@dataclass(slots=True)
class CommitVerification:
    """Whether the changes of one commit were reviewed."""

    commit: str
    subject: str
    author: str
    files: list[FileVerification] = field(default_factory=list)
    exempt: str = ""
    """Why the policy asks for no review of it; empty if it does."""

    @property
    def covered(self) -> bool:
        """Return whether the policy is met."""
        return bool(self.exempt) or all(file.covered for file in self.files)


@dataclass(frozen=True, slots=True)
class _Commit:
    name: str
    parents: tuple[str, ...]
    trailers: tuple[str, ...]
    author: str
    email: str
    subject: str


@dataclass(frozen=True, slots=True)
class _Change:
    """A path that a commit changes, with the versions that the change may have started from."""

    pair: BlobPair
    starts: tuple[TreeEntry | None, ...]


class _ChainSearch:
    """State of the search for reviews of a change: backwards from its result; for a removal, forwards from its
    base."""

    def __init__(self, change: _Change) -> None:
        self.path = change.pair.path
        starts = {start.blob if start else "" for start in change.starts}
        self._forward = change.pair.after is None
        self.reached = starts if change.pair.after is None else {change.pair.after.blob}
        """The blobs whose reviews are to be looked at next; none at the end."""
        self._goals = {""} if change.pair.after is None else starts
        self._seen = set(self.reached)

    def step(self, files: Iterable[ReviewedFile]) -> None:
        """Go over the reviews of the blobs that were reached."""
        links = [(file.base, file.result) if self._forward else (file.result, file.base) for file in files]
        further = {to for start, to in links if start in self.reached} - self._seen
        self._seen |= further
        self.reached = set() if further & self._goals else further - {""}


_Node = tuple[str, str]
"""A blob and its mode; of no file both are empty."""


class CommitVerifier:
    """Verifies the commits of one range under one policy."""

    def __init__(
        self,
        borrowed: BorrowedRepository,
        policy: ReviewPolicy,
        signatures: SignatureVerifier,
        more_notes: Sequence[str] = (),
    ) -> None:
        self._borrowed = borrowed
        self._policy = policy
        self._signatures = signatures
        self._notes = StatementNotes(borrowed, more_notes)
        self._signers: dict[str, tuple[str, str]] = {}
        self._repository: frozenset[str] = frozenset()
        self._author = ""
        """Whose reviews don't count at present, as an address; empty for nobody's."""
        self._bad_signatures = 0
        self.refused: dict[str, str] = {}
        """Envelopes that were looked at and don't count, with the reason."""

    def verify(self, base: str, tip: str) -> list[CommitVerification]:
        """Verify each commit that `tip` has and `base` has not, oldest first.

        Args:
            base: A commit, or empty for all that led to `tip`.
            tip: A commit.

        Raises:
            GitFailed: the repository, or a note in it, cannot be read.
        """
        commits = self._commits(base, tip)
        if cut := self._borrowed.shallow_commits & {commit.name for commit in commits}:
            raise GitFailed(
                f"The clone is shallow: what {min(cut)[:_SHOWN]} started from is missing; `git fetch --unshallow`."
            )
        self._repository = self._identity(tip)
        changes = {commit.name: self._changes(commit) for commit in commits}
        self._look_up_chains(change for own in changes.values() for change in own)
        verified = [self._verify_commit(commit, changes[commit.name]) for commit in commits]
        self.refused |= self._notes.unreadable
        return verified

    def reviews_of(self, base: str, tip: str) -> list[FileVerification]:
        """Return, file by file, the reviews that cover the difference between two commits or trees."""
        self._repository = self._identity(tip)
        changes = [_Change(pair, (pair.before,)) for pair in self._difference(base, tip)]
        self._look_up_chains(changes)
        return [self._verify_file(change) for change in changes]

    def signers_of(self, tip: str, pair: BlobPair) -> set[str]:
        """Return who has approved exactly this change of a file, as the policy asks."""
        self._repository = self._identity(tip)
        self._look_up_chains([_Change(pair, (pair.before,))])
        start, end = _node(pair.before), _node(pair.after)
        return {
            one.signer
            for one in self._accepted(pair.path)
            if _is_same((one.file.base, one.file.base_mode), start)
            and _is_same((one.file.result, one.file.result_mode), end)
        }

    def check_statements(self, tip: str) -> int:
        """Check all signed statements of the repository; return how many are good, and leave others in `refused`."""
        self._repository = self._identity(tip)
        self._notes.read_all()
        good = sum(bool(self._signer(name)[0]) for name in self._notes.envelopes)
        self.refused |= self._notes.unreadable
        return good

    def _commits(self, base: str, tip: str) -> list[_Commit]:
        form = "%H%x00%P%x00%(trailers:keyonly,separator=%x20)%x00%an <%ae>%x00%ae%x00%s"
        said = self._borrowed.query(
            "log", "-z", "--reverse", f"--format={form}", tip, *([f"^{base}"] if base else [])
        )
        parts = said.decode("utf-8", "surrogateescape").rstrip("\n").split("\0")
        return [
            _Commit(name, tuple(parents.split()), tuple(trailers.split()), author, email, subject)
            for name, parents, trailers, author, email, subject in zip(
                *(parts[at::_FIELDS] for at in range(_FIELDS)), strict=False
            )
        ]

    def _identity(self, tip: str) -> frozenset[str]:
        """Return what a review must name as its repository, one of them."""
        if self._policy.repository:
            return frozenset({self._policy.repository})
        if self._borrowed.shallow_commits:
            raise GitFailed(
                "The clone is shallow, so its first commit, which reviews name, is unknown: `git fetch --unshallow`, "
                "or give the repository a name in the policy."
            )
        return frozenset(repository_roots(self._borrowed, tip))

    def _changes(self, commit: _Commit) -> list[_Change]:
        """Return the changes that a commit makes itself: for a merge, those that git would not have made of its
        parents."""
        if not commit.parents:
            return [_Change(pair, (pair.before,)) for pair in self._difference("--root", commit.name)]
        first, *others = commit.parents
        if len(others) == 1:
            # What it prints: https://git-scm.com/docs/git-merge-tree#OUTPUT; with 1 it ends if there are conflicts.
            words = ("merge-tree", "--write-tree", "-z", "--name-only", "--no-messages", first, *others)
            try:
                tree, *conflicts = self._borrowed.query(*words, most=1).decode("utf-8", "surrogateescape").split("\0")
            except GitFailed:
                pass  # They have no commit in common: all that the second brings counts.
            else:
                return self._changes_of_merge(commit, tree.strip(), set(conflicts))
        return [_Change(pair, (pair.before,)) for pair in self._difference(first, commit.name)]

    def _changes_of_merge(self, commit: _Commit, tree: str, conflicts: set[str]) -> list[_Change]:
        own = [pair for pair in self._difference(tree, commit.name) if pair.path not in conflicts]
        changes = [_Change(pair, (pair.before,)) for pair in own]
        if not conflicts:
            return changes
        sides = [
            {pair.path: pair for pair in self._difference(parent, commit.name) if pair.path in conflicts}
            for parent in commit.parents
        ]
        # One that comes unchanged from a parent needs no review.
        for path in sorted(set(sides[0]) & set(sides[1])):
            changes.append(_Change(sides[0][path], tuple(side[path].before for side in sides)))
        return changes

    def _difference(self, before: str, after: str) -> Sequence[BlobPair]:
        words = ("diff-tree", "-r", "--raw", "-z", "--no-renames", "--no-commit-id", before, after)
        return parse_raw_diff(self._borrowed.query(*words), _MOST_FILES)

    def _look_up_chains(self, changes: Iterable[_Change]) -> None:
        """Read the reviews that may lead from one version of a file to another, all files a step at a time."""
        searches = [_ChainSearch(change) for change in changes]
        for _ in range(_ROUNDS):
            self._notes.look_up_versions((search.path, blob) for search in searches for blob in search.reached)
            for search in searches:
                search.step(file for _, _, file in self._notes.reviews_of(search.path))
            searches = [search for search in searches if search.reached]
            if not searches:
                return

    def _verify_commit(self, commit: _Commit, changes: Sequence[_Change]) -> CommitVerification:
        found = CommitVerification(commit.name, commit.subject, commit.author)
        by_agent = self._policy.is_agent(commit.author, commit.trailers)
        if self._policy.commits == "agents" and not by_agent:
            found.exempt = "no agent took part"
        elif self._policy.handwritten == "signature" and not by_agent and self._is_signed_by_author(commit):
            found.exempt = "signed by its author"
        if not found.exempt:
            self._author = "" if by_agent or self._policy.author_counts else commit.email
            found.files = [self._verify_file(change) for change in changes]
        return found

    def _is_signed_by_author(self, commit: _Commit) -> bool:
        raw = self._borrowed.query("cat-file", "commit", commit.name)
        head, blank, message = raw.partition(b"\n\n")
        kept: list[bytes] = []
        signature: list[bytes] = []
        inside = False
        for line in head.split(b"\n"):
            inside = line.startswith(b"gpgsig") or (inside and line.startswith(b" "))
            (signature if inside else kept).append(line)
        if not signature:
            return False
        armored = b"\n".join(line.partition(b" ")[2] for line in signature) + b"\n"
        signed = b"\n".join(kept) + blank + message
        signer, _ = self._signatures.signer(signed, armored, COMMIT_NAMESPACE)
        return signer == commit.email

    def _verify_file(self, change: _Change) -> FileVerification:
        pair, starts = change.pair, change.starts
        found = FileVerification(pair.path)
        people = self._policy.people_for(pair.path)
        if not people:
            return found
        if any(entry is not None and entry.is_submodule for entry in (*starts, pair.after)):
            found.problem = "a submodule, which no review covers"
            return found
        for start in starts:
            if steps := self._chain(pair.path, start, pair.after, people):
                found.reviews = steps
                return found
        self._verify_hunks(found, pair, people)
        return found

    def _chain(self, path: str, start: TreeEntry | None, end: TreeEntry | None, people: int) -> list[AcceptedReview]:
        """Return the accepted reviews that lead from one version of a file to another; none if they don't."""
        edges: dict[tuple[_Node, _Node], list[AcceptedReview]] = {}
        for one in self._accepted(path):
            file = one.file
            edges.setdefault(((file.base, file.base_mode), (file.result, file.result_mode)), []).append(one)
        edges = {nodes: reviews for nodes, reviews in edges.items() if _people(reviews) >= people}
        goal, first = _node(start), _node(end)
        waiting: deque[tuple[_Node, list[AcceptedReview]]] = deque([(first, [])])
        seen = {first}
        while waiting:
            node, steps = waiting.popleft()
            for (before, after), reviews in edges.items():
                if not _is_same(after, node):
                    continue
                # A review that was recorded without modes left the mode as it was.
                before = (before[0], before[1] or (node[1] if before[0] else ""))
                if _is_same(before, goal):
                    return [*reviews, *steps]
                if before not in seen:
                    seen.add(before)
                    waiting.append((before, [*reviews, *steps]))
        return []

    def _verify_hunks(self, found: FileVerification, pair: BlobPair, people: int) -> None:
        """Look for the hunks of a file in reviews on other bases."""
        before, after = pair.before, pair.after
        # Checks ran on the whole files that were reviewed, not on these.
        if (
            not self._policy.rebased
            or self._policy.checks
            or before is None
            or after is None
            or before.blob == after.blob
        ):
            found.problem = _change_words(pair)
            return
        if before.mode != after.mode:
            found.problem = f"its mode {before.mode} → {after.mode}"
            return
        contents = self._borrowed.blobs([before.blob, after.blob])
        hunks = hunk_digests(pair.path, contents[before.blob], contents[after.blob], self._borrowed.hash_name)
        if not hunks:
            found.problem = "binary content"
            return
        self._notes.look_up(chain.from_iterable((digests.before, digests.after) for _, digests in hunks))
        accepted = list(self._accepted(pair.path))
        for line, digests in hunks:
            fitting = [one for one in accepted if any(_is_same_hunk(digests, other) for other in one.file.hunks)]
            if _people(fitting) < people:
                found.lines.append(line)
            found.reviews += [one for one in fitting if one not in found.reviews]
        if found.lines:
            found.problem = f"{len(found.lines)} of {len(hunks)} hunks" if len(hunks) > 1 else "its change"
            found.reviews = []
        found.rebased = not found.lines

    def _accepted(self, path: str) -> Iterable[AcceptedReview]:
        for name, review, file in self._notes.reviews_of(path):
            signer, key = self._signer(name)
            if not signer or signer == self._author:
                continue
            if reason := self._missing(review):
                self.refused[name] = reason
            else:
                yield AcceptedReview(signer, key, review, file)

    def _missing(self, review: SignedReview) -> str:
        """Return the requirement of the policy that a review does not meet; empty if it meets all."""
        limit = self._policy.unseen_lines
        if limit is not None and (review.unseen_lines is None or review.unseen_lines > limit):
            if review.unseen_lines is None:
                return f"no screen was watched when {review.proposal} was decided"
            return f"{review.unseen_lines} lines of {review.proposal} were never on the screen"
        passed = {check.name for check in review.checks if check.state == _PASSED and not check.stale}
        missing = [name for name in self._policy.checks if name not in passed]
        return f"{', '.join(missing)} had not passed on {review.proposal}" if missing else ""

    def _signer(self, name: str) -> tuple[str, str]:
        """Return who signed an envelope, and the key; empty if it does not count, with the reason in `refused`."""
        if name not in self._signers:
            envelope, predicate = self._notes.envelopes[name]
            self._signers[name] = ("", "")
            if not self._repository & set(predicate.repository):
                self.refused[name] = "it is about another repository"
                return "", ""
            try:
                for signature in envelope.signatures:
                    signer, key = self._signatures.signer(envelope.signed_bytes, signature.armored)
                    if signer:
                        self._signers[name] = signer, key
                        return signer, key
                self.refused[name] = "no allowed key signed it"
            except StatementError as error:
                self.refused[name] = str(error)
            self._bad_signatures += 1
            if self._bad_signatures > _MOST_REFUSED:
                raise GitFailed(
                    f"More than {_MOST_REFUSED:,} statements about these files have no good signature; nothing was "
                    "verified."
                )
        return self._signers[name]


def repository_roots(borrowed: BorrowedRepository, tip: str) -> list[str]:
    """Return the root commits of a history: the name of a repository that has no other."""
    return borrowed.query("rev-list", "--max-parents=0", tip).decode().split()


def describe_signers(reviews: Sequence[AcceptedReview]) -> str:
    """Return whose reviews these are, each with how many hunks of which proposal were approved."""
    told: dict[str, None] = {}
    for one in reviews:
        review = one.review
        told[f"{one.signer} ({review.proposal}, {len(review.approved)}/{review.hunks} hunks)"] = None
    return ", ".join(told)


def _node(entry: TreeEntry | None) -> _Node:
    return (entry.blob, entry.mode) if entry else ("", "")


def _is_same(recorded: _Node, node: _Node) -> bool:
    return recorded[0] == node[0] and recorded[1] in ("", node[1])


def _is_same_hunk(one: HunkDigests, other: HunkDigests) -> bool:
    return one.before == other.before or one.after == other.after


def _people(reviews: Sequence[AcceptedReview]) -> int:
    """Count who reviewed: never one key twice, and never one person twice."""
    return min(len({one.signer for one in reviews}), len({one.key for one in reviews}))


def _change_words(pair: BlobPair) -> str:
    if pair.before is None:
        return "a new file"
    if pair.after is None:
        return "its removal"
    return f"its mode {pair.before.mode} → {pair.after.mode}" if pair.before.blob == pair.after.blob else "its change"


def require_other_reviews(root: Path, changes: Iterable[PathChange]) -> None:
    """Check that others have approved the same changes, where the policy of HEAD asks for more than one person.

    Args:
        root: The workspace.
        changes: What is about to be written.

    Raises:
        GitFailed: they have not; or the repository, its policy, the allowed keys or a note cannot be read.
    """
    with BorrowedRepository(root) as borrowed:
        if not (head := borrowed.resolve("HEAD")):
            return
        policy = committed_policy(borrowed, head)
        lead = f"{borrowed.folder}/" if borrowed.folder else ""
        wanted = [(change, policy.people_for(lead + change.path)) for change in changes]
        if not (wanted := [(change, people) for change, people in wanted if people > 1]):
            return
        keys = SignatureVerifier(allowed_signers(borrowed, policy, head), policy.gpg_keys, time())
        verifier = CommitVerifier(borrowed, policy, keys)
        for change, people in wanted:
            before, after = (
                _entry(borrowed, lead + change.path, leaf) if leaf else None for leaf in (change.before, change.after)
            )
            others = verifier.signers_of(head, BlobPair(lead + change.path, before, after))
            others.discard(borrowed.setting("user.email"))
            if len(others) < people - 1:
                missing = plural(people - 1 - len(others), "other person").replace("persons", "people")
                raise GitFailed(
                    f"{POLICY_PATH} asks for {people} people on {change.path}: {missing} must approve this change "
                    "first. Sign your approval with `signoff push ID --sign`, and fetch theirs."
                )


def _entry(borrowed: BorrowedRepository, path: str, leaf: Leaf) -> TreeEntry:
    return TreeEntry(path, git_mode(leaf.mode, link=leaf.is_link), blob_id(leaf.data, borrowed.hash_name))
