"""Hold an approval back until as many other people have approved the same change as the policy asks."""

from collections.abc import Iterable
from pathlib import Path
from time import time

from app.attestation.commit_verification import CommitVerifier
from app.attestation.review_policy import POLICY_PATH, allowed_signers, committed_policy
from app.attestation.signatures import SignatureVerifier
from app.git.blobs import BlobPair, TreeEntry, git_blob, git_mode
from app.git.borrowed_repository import BorrowedRepository
from app.git.run_git import GitFailed
from app.sandbox.captured_changes import Leaf, PathChange
from app.text.plural import plural


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
        verifier = CommitVerifier(borrowed, policy, keys, head)
        own = borrowed.setting("user.email").casefold()
        for change, people in wanted:
            before, after = (
                _entry(borrowed, lead + change.path, leaf) if leaf else None for leaf in (change.before, change.after)
            )
            reviews = verifier.reviews_of_change(BlobPair(lead + change.path, before, after))
            # One's own keys may stand under another name.
            others = {
                one.signer
                for one in reviews
                if one.signer.casefold() != own and not one.review.reviewer.casefold().endswith(f"<{own}>")
            }
            if len(others) < people - 1:
                missing = plural(people - 1 - len(others), "other person").replace("persons", "people")
                raise GitFailed(
                    f"{POLICY_PATH} asks for {people} people on {change.path}: {missing} must approve this change "
                    "first. Sign your approval with `signoff push ID --sign`, and fetch theirs."
                )


def _entry(borrowed: BorrowedRepository, path: str, leaf: Leaf) -> TreeEntry:
    return TreeEntry(path, git_mode(leaf.mode, link=leaf.is_link), git_blob(borrowed, path, leaf)[0])
