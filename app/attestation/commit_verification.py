"""Verify that the changes of commits were reviewed: follow blobs through signed reviews, from git alone.

A range is verified under the policy of its base.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from time import time

from msgspec import Struct, field

from app.attestation.review_notes import ReviewNoteReader
from app.attestation.review_policy import (
    POLICY_PATH,
    ReviewPolicy,
    parse_policy,
    read_allowed_signers,
    read_committed_file,
    read_committed_policy,
)
from app.attestation.signed_statement import (
    COMMIT_NAMESPACE,
    ReviewedFile,
    SignatureVerifier,
    SignedApproval,
    UnreadableStatement,
    make_base_independent_hunk_digests,
)
from app.git.blobs import TreeDiffEntry, TreeEntry, convert_to_git_blob_id_and_bytes, to_git_mode
from app.git.borrowed_repository import ObjectBorrowingRepository
from app.git.commits import CommitWithChanges, diff_trees, read_commits
from app.git.run_git import GitFailed
from app.sandbox.captured_changes import FileOrLink, PathChange
from app.text.quantities import format_count

_CHECK_PASSED = "passed"
_MAX_REVIEW_CHAIN = 256
"""Maximum number of successive reviews of one file that are followed."""
_FILES_PER_BATCH = 64
"""Number of files whose hunks are searched for at the same time."""
_MAX_REFUSED = 1_000
"""Maximum number of statements without a valid signature; checking one takes some milliseconds."""


class AcceptedReview(Struct, frozen=True, eq=False):
    """A review that is signed by an allowed key and meets the policy."""

    signer: str
    """The principal of the key."""
    key: str
    review: SignedApproval
    file: ReviewedFile


class HunkVerification(Struct, frozen=True):
    """Whether one hunk of a file was reviewed, on any base, and the reviews that cover it."""

    line: int
    """Its first line in the file after the commit, from 1."""
    covered: bool
    reviews: Sequence[AcceptedReview]


class FileVerification(Struct):
    """Whether the change of one file in a commit was reviewed."""

    path: str
    people: int = 1
    """Number of different people who must have approved it."""
    reviews: Sequence[AcceptedReview] = ()
    """The reviews that cover it; empty if it is not covered."""
    problem: str = ""
    """The part that is not covered, as a phrase; empty if all is."""
    hunks: list[HunkVerification] = field(default_factory=list)
    """Its hunks, if no chain of reviews covers the change of the whole file."""

    @property
    def covered(self) -> bool:
        """Return whether all hunks of the change were reviewed."""
        return not self.problem

    @property
    def requirement(self) -> str:
        """Return what its problem lacks: `not reviewed by 2 people`."""
        return f"not reviewed by {self.people} people" if self.people > 1 else "not reviewed"

    @property
    def rebased(self) -> bool:
        """Return whether its hunks were reviewed on another base."""
        return self.covered and bool(self.hunks)

    @property
    def lines(self) -> list[int]:
        """Return the first lines of the hunks that are not covered."""
        return [hunk.line for hunk in self.hunks if not hunk.covered]


class CommitVerification(Struct):
    """Whether the changes of one commit were reviewed."""

    commit: str
    subject: str
    author: str
    files: Sequence[FileVerification] = ()
    exempt: str = ""
    """Why the policy requires no review of it; empty if it does."""

    @property
    def covered(self) -> bool:
        """Return whether the policy is met."""
        return bool(self.exempt) or all(file.covered for file in self.files)


_Node = tuple[str, str]
"""A blob and its mode; both are empty for a missing file."""


class _ReviewSearch:
    """The search for the reviews of a change: backwards from its result; for a removal, forwards from its base."""

    def __init__(self, pair: TreeDiffEntry, people: int, author: str = "") -> None:
        self.pair = pair
        self.people = people
        self.author = author
        """The e-mail address whose reviews don't count; empty if all count."""
        self.found = FileVerification(pair.path, people)
        self.reached = {entry.blob for entry in (pair.after or pair.before,) if entry}
        """The blobs whose reviews are read next; empty when the search has ended."""
        self._seen = {"", *self.reached}

    def step(self, accepted: Iterable[AcceptedReview]) -> None:
        """Follow the accepted reviews of the reached blobs."""
        files = [review.file for review in accepted]
        links = [(file.result, file.base) if self.pair.after else (file.base, file.result) for file in files]
        self.reached = {to for start, to in links if start in self.reached} - self._seen
        self._seen |= self.reached


class CommitVerifier:
    """Verifies the commits of one range under one policy.

    Reviews must name the repository of a trusted commit, which is not part of the range.

    Args:
        commit: The commit with the file of allowed signers.
        valid_at: Time at which keys must be valid, in Unix seconds; None for now.
        more_notes: References or commits of other notes to read.
        trusted: The trusted commit; by default `commit`.

    Raises:
        GitFailed: The allowed signers or the notes can't be read, or the clone is shallow and the policy does not
            name the repository.
    """

    def __init__(
        self,
        borrowed: ObjectBorrowingRepository,
        policy: ReviewPolicy,
        commit: str,
        valid_at: float | None = None,
        more_notes: Sequence[str] = (),
        trusted: str = "",
    ) -> None:
        self._borrowed = borrowed
        self._load_policy = policy
        signers = read_allowed_signers(borrowed, policy, commit)
        self._signatures = SignatureVerifier(
            signers, policy.gpg_keys, time() if valid_at is None else valid_at, borrowed.environment
        )
        self._notes = ReviewNoteReader(borrowed, more_notes)
        self._signers: dict[str, tuple[str, str]] = {}
        self._bad_signatures = 0
        self._repository = (
            {policy.repository} if policy.repository else set(find_root_commits(borrowed, trusted or commit))
        )
        self.refused: dict[str, str] = {}
        """Envelopes that do not count, by id, with the reason."""

    def verify(self, base: str, tip: str) -> list[CommitVerification]:
        """Verify each commit that is reachable from `tip` and not from `base`, oldest first.

        Args:
            base: A commit, or empty for the whole history of `tip`.
            tip: The last commit.

        Raises:
            GitFailed: The repository or a note can't be read.
        """
        verified, searches = [], []
        for commit in read_commits(self._borrowed, base, tip):
            found = CommitVerification(commit.name, commit.subject, commit.author)
            by_agent = self._load_policy.is_by_agent(commit.author, commit.trailers)
            if self._load_policy.commits == "agents" and not by_agent:
                found.exempt = "no agent took part"
            elif self._load_policy.handwritten == "signature" and not by_agent and self._is_signed_by_author(commit):
                found.exempt = "signed by its author"
            else:
                author = "" if by_agent or self._load_policy.author_counts else commit.email
                asked = [
                    _ReviewSearch(pair, self._load_policy.required_reviewer_count(pair.path), author)
                    for pair in commit.changes
                ]
                found.files = [search.found for search in asked]
                searches += asked
            verified.append(found)
        self._search_reviews(searches)
        return verified

    def find_covering_reviews(self, base: str, tip: str) -> list[FileVerification]:
        """Return the reviews that cover the difference between two commits or trees, file by file."""
        searches = [_ReviewSearch(pair, 1) for pair in diff_trees(self._borrowed, base, tip)]
        self._search_reviews(searches)
        return [search.found for search in searches]

    def accepted_reviews_of(self, pair: TreeDiffEntry) -> list[AcceptedReview]:
        """Return the reviews of exactly this change of a file that the policy accepts."""
        self._notes.read_envelopes_of_versions(
            [(pair.path, entry.blob) for entry in (pair.before, pair.after) if entry]
        )
        wanted = _version_node(pair.before), _version_node(pair.after)
        return [review for review in self._accepted_reviews(pair.path, "") if _base_and_result(review.file) == wanted]

    def count_valid_statements(self) -> int:
        """Check all signed statements; return the number of valid ones, and add the others to `refused`."""
        self._notes.read_all_envelopes()
        good = sum(bool(self._find_envelope_signer(name)[0]) for name in self._notes.envelopes)
        self.refused |= self._notes.unreadable
        return good

    def _search_reviews(self, searches: Sequence[_ReviewSearch]) -> None:
        """Find the reviews of all these changes, whole files first."""
        waiting = []
        for search in searches:
            modules = [entry for entry in (search.pair.before, search.pair.after) if entry and entry.is_submodule]
            if search.people and modules:
                search.found.problem = "the commit of the submodule"
            elif search.people:
                waiting.append(search)
        going = waiting
        for _ in range(_MAX_REVIEW_CHAIN):
            self._notes.read_envelopes_of_versions(
                (search.pair.path, blob) for search in going for blob in search.reached
            )
            for search in going:
                accepted = list(self._accepted_reviews(search.pair.path, search.author))
                search.found.reviews = _find_review_chain(accepted, search.pair, search.people)
                search.step(accepted)
            if not (going := [search for search in going if search.reached and not search.found.reviews]):
                break
        rest = [search for search in waiting if not search.found.reviews]
        for search in rest:
            search.found.problem = _describe_change(search.pair)
        # Checks ran on the whole reviewed files, not on these.
        if self._load_policy.rebased and not self._load_policy.checks:
            edited = [search for search in rest if _is_edit(search.pair)]
            for start in range(0, len(edited), _FILES_PER_BATCH):
                self._search_hunks(edited[start : start + _FILES_PER_BATCH])
        self.refused |= self._notes.unreadable

    def _search_hunks(self, searches: Sequence[_ReviewSearch]) -> None:
        """Search the hunks of files in reviews on other bases."""
        blobs = {entry.blob for search in searches for entry in (search.pair.before, search.pair.after) if entry}
        contents = self._borrowed.read_blobs(sorted(blobs))
        found = []
        for search in searches:
            pair = search.pair
            before, after = (contents[entry.blob] if entry else b"" for entry in (pair.before, pair.after))
            hunks = make_base_independent_hunk_digests(pair.path, before, after, self._borrowed.object_format)
            found.append((search, hunks))
        self._notes.read_envelopes_of_digests(digest for _, hunks in found for _, hunk in hunks for digest in hunk)
        for search, hunks in found:
            accepted = list(self._accepted_reviews(search.pair.path, search.author))
            by_digest: dict[str, list[AcceptedReview]] = {}
            for review in accepted:
                for digest in {digest for hunk in review.file.hunks for digest in hunk}:
                    by_digest.setdefault(digest, []).append(review)
            for line, hunk in hunks:
                fitting = list(dict.fromkeys(review for digest in hunk for review in by_digest.get(digest, ())))
                search.found.hunks.append(HunkVerification(line, _count_people(fitting) >= search.people, fitting))
            if not hunks:
                search.found.problem = "binary content"
            elif missing := len(search.found.lines):
                search.found.problem = f"{missing} of {len(hunks)} hunks" if len(hunks) > 1 else "its change"
            else:
                search.found.problem = ""
                reviews = chain.from_iterable(hunk.reviews for hunk in search.found.hunks)
                search.found.reviews = list(dict.fromkeys(reviews))

    def _is_signed_by_author(self, commit: CommitWithChanges) -> bool:
        raw = self._borrowed.run_query("cat-file", "commit", commit.name)
        head, blank, message = raw.partition(b"\n\n")
        kept: list[bytes] = []
        signature: list[bytes] = []
        inside = False
        for line in head.split(b"\n"):
            inside = line.startswith((b"gpgsig ", b"gpgsig-sha256 ")) or (inside and line.startswith(b" "))
            (signature if inside else kept).append(line)
        if not signature:
            return False
        armored = b"\n".join(line.partition(b" ")[2] for line in signature) + b"\n"
        signed = b"\n".join(kept) + blank + message
        signer, _ = self._signatures.find_signer(signed, armored, COMMIT_NAMESPACE)
        return bool(signer) and signer.casefold() == commit.email.casefold()

    def _accepted_reviews(self, path: str, author: str) -> Iterator[AcceptedReview]:
        for name, review, file in self._notes.reviews_of_path(path):
            signer, key = self._find_envelope_signer(name)
            if not signer or signer.casefold() == author.casefold():
                continue
            if reason := self._unmet_requirement(review):
                self.refused[name] = reason
            else:
                yield AcceptedReview(signer, key, review, file)

    def _unmet_requirement(self, review: SignedApproval) -> str:
        """Return the requirement of the policy that a review does not meet; empty if it meets all."""
        limit = self._load_policy.unseen_lines
        if limit is not None and (review.unseen_lines is None or review.unseen_lines > limit):
            if review.unseen_lines is None:
                return f"no screen was watched when {review.proposal} was decided"
            return f"{review.unseen_lines} lines of {review.proposal} were never on the screen"
        passed = {check.name for check in review.checks if check.state == _CHECK_PASSED and not check.stale}
        missing = [name for name in self._load_policy.checks if name not in passed]
        return f"{', '.join(missing)} had not passed on {review.proposal}" if missing else ""

    def _find_envelope_signer(self, name: str) -> tuple[str, str]:
        """Return the signer of an envelope and the key; empty if it does not count, with the reason in `refused`."""
        if name not in self._signers:
            self._signers[name] = self._check_signature(name)
            if self._bad_signatures > _MAX_REFUSED:
                raise GitFailed(
                    f"More than {_MAX_REFUSED:,} statements about these files have no good signature; nothing was "
                    "verified."
                )
        return self._signers[name]

    def _check_signature(self, name: str) -> tuple[str, str]:
        envelope, predicate = self._notes.envelopes[name]
        if not self._repository & set(predicate.repository):
            self.refused[name] = "it is about another repository"
            return "", ""
        try:
            for signature in envelope.signatures:
                signer, key = self._signatures.find_signer(envelope.signed_bytes, signature.armored)
                if signer:
                    return signer, key
                self._bad_signatures += 1
            self.refused[name] = "no allowed key signed it"
        except UnreadableStatement as error:
            self.refused[name] = str(error)
        return "", ""


def find_root_commits(borrowed: ObjectBorrowingRepository, commit: str) -> list[str]:
    """Return the root commits of a history, which identify a repository without a name. Raises GitFailed."""
    if borrowed.shallow_commits:
        raise GitFailed(
            "The clone is shallow, so its first commit, which reviews name, is unknown: `git fetch --unshallow`, "
            "or give the repository a name in the policy."
        )
    return borrowed.run_query("rev-list", "--max-parents=0", commit).decode().split()


def describe_signers(reviews: Sequence[AcceptedReview]) -> str:
    """Return the signers of reviews, each with the proposal and the number of its approved hunks."""
    told: dict[str, None] = {}
    for one in reviews:
        review = one.review
        told[f"{one.signer} ({review.proposal}, {len(review.approved)}/{review.hunks} hunks)"] = None
    return ", ".join(told)


def _find_review_chain(accepted: Iterable[AcceptedReview], pair: TreeDiffEntry, people: int) -> list[AcceptedReview]:
    """Return reviews that lead from the old version to the new one, each step by enough people; else none."""
    edges: dict[tuple[_Node, _Node], list[AcceptedReview]] = {}
    for review in accepted:
        edges.setdefault(_base_and_result(review.file), []).append(review)
    into: dict[_Node, list[tuple[_Node, list[AcceptedReview]]]] = {}
    for (before, after), reviews in edges.items():
        if _count_people(reviews) >= people:
            into.setdefault(after, []).append((before, reviews))
    goal, last = _version_node(pair.before), _version_node(pair.after)
    waiting: deque[tuple[_Node, list[AcceptedReview]]] = deque([(last, [])])
    seen = {last}
    while waiting:
        node, steps = waiting.popleft()
        for before, reviews in into.get(node, ()):
            if before == goal:
                return [*reviews, *steps]
            if before not in seen:
                seen.add(before)
                waiting.append((before, [*reviews, *steps]))
    return []


def _version_node(entry: TreeEntry | None) -> _Node:
    return (entry.blob, entry.mode) if entry else ("", "")


def _base_and_result(file: ReviewedFile) -> tuple[_Node, _Node]:
    """Return base and result of a review; a missing mode is the other mode, or that of a plain file."""
    base = file.base_mode or file.result_mode or "100644"
    result = file.result_mode or file.base_mode or "100644"
    return (file.base, base) if file.base else ("", ""), (file.result, result) if file.result else ("", "")


def _is_edit(pair: TreeDiffEntry) -> bool:
    """Return whether a change affects only the content of a regular file."""
    before, after = pair.before, pair.after
    if before is None or after is None or before.mode != after.mode or before.is_link:
        return False
    return before.blob != after.blob


def _count_people(reviews: Sequence[AcceptedReview]) -> int:
    """Count the reviewers: neither the same key nor the same person counts twice."""
    return min(len({review.signer for review in reviews}), len({review.key for review in reviews}))


def _describe_change(pair: TreeDiffEntry) -> str:
    before, after = pair.before, pair.after
    if before is None:
        return "a new file"
    if after is None:
        return "its removal"
    return f"its mode {before.mode} → {after.mode}" if before.mode != after.mode else "its change"


def require_approvals_by_other_people(root: Path, changes: Iterable[PathChange]) -> None:
    """Raise GitFailed if fewer other people approved these changes than the policy of HEAD requires.

    Raises:
        GitFailed: They have not, or the repository, its policy, the allowed keys or a note can't be read.
    """
    with ObjectBorrowingRepository(root) as borrowed:
        if not (head := borrowed.resolve_object_id("HEAD")):
            return
        policy = read_committed_policy(borrowed, head)
        lead = borrowed.path_prefix
        wanted = [(change, policy.required_reviewer_count(lead + change.path)) for change in changes]
        if not (wanted := [(change, people) for change, people in wanted if people > 1]):
            return
        verifier = CommitVerifier(borrowed, policy, head)
        own = borrowed.setting("user.email").casefold()
        for change, people in wanted:
            before, after = (
                _make_tree_entry(borrowed, lead + change.path, leaf) if leaf else None
                for leaf in (change.before, change.after)
            )
            reviews = verifier.accepted_reviews_of(TreeDiffEntry(lead + change.path, before, after))
            # Own keys may have another principal.
            others = {
                review.signer
                for review in reviews
                if review.signer.casefold() != own and not review.review.reviewer.casefold().endswith(f"<{own}>")
            }
            if len(others) < people - 1:
                missing = format_count(people - 1 - len(others), "other person").replace("persons", "people")
                raise GitFailed(
                    f"{POLICY_PATH} asks for {people} people on {change.path}: {missing} must approve this change "
                    "first. Sign your approval with `signoff push ID --sign`, and fetch theirs."
                )


def _make_tree_entry(borrowed: ObjectBorrowingRepository, path: str, leaf: FileOrLink) -> TreeEntry:
    return TreeEntry(
        path, to_git_mode(leaf.mode, link=leaf.is_link), convert_to_git_blob_id_and_bytes(borrowed, path, leaf)[0]
    )


_ID_DIGITS = 7
"""Digits of a commit's id."""
_MAX_POLICY_BYTES = 1 << 20
"""Maximum size of a policy file in bytes."""


class RangeVerification(Struct, frozen=True):
    """The commits of a range and whether each was reviewed."""

    base: str
    """The commit before the range; empty if the range starts with the first commit."""
    tip: str
    policy: str
    """The file or commit that contains the policy; empty for the default one."""
    commits: Sequence[CommitVerification]
    refused: Mapping[str, str]
    """Signed statements that don't count, by id, with the reason."""

    @property
    def covered(self) -> bool:
        """Return whether all commits are covered."""
        return all(commit.covered for commit in self.commits)

    @property
    def summary(self) -> str:
        """Return one sentence for the user."""
        missing = sum(not commit.covered for commit in self.commits)
        under = f"under {self.policy}" if self.policy else "with no policy in the base: one review of every change"
        of = f"{missing} of " if missing else ""
        return (
            f"{of}{format_count(len(self.commits), 'commit')} {'not ' if missing else ''}covered by reviews, {under}."
        )


def verify_range(
    root: Path,
    revision_range: str,
    keys_valid_at: float,
    *,
    policy_file: str | None = None,
    more_notes: Sequence[str] = (),
) -> RangeVerification:
    """Verify the commits of a range.

    Args:
        revision_range: `BASE..TIP`, one commit, or empty for the commits of HEAD that its upstream lacks.
        keys_valid_at: Time at which keys must be valid, in Unix seconds.
        policy_file: The policy to use instead of that of the base.
        more_notes: References or commits of other notes to read.

    Raises:
        GitFailed: The range is empty, or the repository, a note, the policy or the keys can't be read.
    """
    with ObjectBorrowingRepository(root, work_tree=False) as borrowed:
        if any(key.endswith(".promisor") for key in borrowed.settings):
            raise GitFailed("The clone is partial, so that notes may be missing; clone it without `--filter`.")
        base, tip = parse_commit_range(borrowed, revision_range)
        if base == "" and tip in borrowed.shallow_commits:
            raise GitFailed(f"The clone is shallow: what {tip[:_ID_DIGITS]} started from is missing.")
        policy, source = _load_policy(borrowed, base, policy_file)
        verifier = CommitVerifier(borrowed, policy, base, keys_valid_at, more_notes, base or tip)
        commits = verifier.verify(base, tip)
        if not commits:
            raise GitFailed("There is no commit in this range; nothing was verified.")
        return RangeVerification(base, tip, source, commits, verifier.refused)


def parse_commit_range(borrowed: ObjectBorrowingRepository, revision_range: str) -> tuple[str, str]:
    """Return the commit before a range, empty if there is none, and its last commit. Raises GitFailed."""
    if not revision_range:
        upstream = borrowed.resolve_object_id("HEAD@{upstream}")
        revision_range = f"{upstream}..HEAD" if upstream else "HEAD"
    first, dots, last = revision_range.partition("..")
    last = last.removeprefix(".")
    tip = borrowed.resolve_object_id((last or "HEAD") if dots else first)
    if not tip:
        raise GitFailed(f"There is no commit {(last if dots else first)!r} here.")
    if not dots:
        return borrowed.resolve_object_id(f"{tip}^"), tip
    base = borrowed.resolve_object_id(first or "HEAD")
    if not base:
        raise GitFailed(f"There is no commit {first!r} here.")
    return base, tip


def _load_policy(borrowed: ObjectBorrowingRepository, base: str, file: str | None) -> tuple[ReviewPolicy, str]:
    """Return the policy and its source: a file that the user names, or the base of the range. Raises GitFailed."""
    if file is not None:
        try:
            with Path(file).open("rb") as stream:
                return parse_policy(stream.read(_MAX_POLICY_BYTES), file), file
        except OSError as error:
            raise GitFailed(f"{file} cannot be read ({error.strerror}).") from error
    text = read_committed_file(borrowed, base, POLICY_PATH) if base else None
    if text is None:
        return ReviewPolicy(), ""
    source = f"{POLICY_PATH} of {base[:_ID_DIGITS]}"
    return parse_policy(text, source), source
