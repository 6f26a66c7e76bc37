"""What the user has written in the review and not said yet, and what went to the model before."""

from collections.abc import Collection
from dataclasses import replace

from app.proposals.answers import Answer
from app.proposals.facts import LineComment
from app.proposals.models import HunkState, Proposal
from widgets.approval.chosen import pending_of
from widgets.approval.notes import Remark, Words, moved
from widgets.diff.rows import lines_of


class Unsaid:
    """Feedback and remarks, by item."""

    def __init__(self) -> None:
        self.drafts: dict[str, str] = {}
        """Feedback begun and not sent."""
        self.remarks: dict[str, list[Remark]] = {}
        self.sent: dict[str, tuple[LineComment, ...]] = {}
        """Comments that went to the model with a denial, by the denied proposal."""
        self.answered: set[str] = set()
        """Which of these the user ticked off: `P7/0` for the first of P7."""
        self.answers: dict[str, tuple[Answer, ...]] = {}
        """What a proposal does at each of the comments on the version before, by its own id."""

    def follow(self, before: Proposal, after: Proposal) -> None:
        """A remark stays with its line when another hunk of the file is decided or edited."""
        if remarks := self.remarks.get(after.id):
            remarks[:] = [moved(remark, before, after) for remark in remarks]

    def put_aside(self, key: str, text: str) -> None:
        """Keep feedback that is begun."""
        if text:
            self.drafts[key] = text
        else:
            self.drafts.pop(key, None)

    def remark(self, proposal: Proposal, remark: Remark) -> None:
        """Put a remark on a line in the place of the one before; an empty one takes it away.

        A draft leaves the one that was saved as it is, and goes when that is saved.
        """
        remarks = self.remarks.setdefault(proposal.id, [])
        before = [item for item in remarks if item.place == remark.place]
        if before and not remark.quote:
            # What is shown has changed while it was written.
            remark = replace(remark, quote=before[0].quote)
        remarks[:] = [item for item in remarks if item not in before or (remark.draft and not item.draft)]
        if remark.text and not (remark.draft and remark.text in (item.text for item in before if not item.draft)):
            remarks.append(remark)
            remarks.sort(key=lambda item: (item.path, item.line))

    def words(self, proposal: Proposal, hunks: Collection[str] | None = None) -> Words:
        """What is said with a decision on these hunks, or on all that waits.

        A decision on a part takes along the comments on that part, one that leaves nothing takes everything.
        """
        feedback, remarks = self._going(proposal, hunks)
        return Words(feedback, tuple(remark.comment for remark in remarks))

    def take(self, proposal: Proposal, hunks: Collection[str] | None = None) -> Words:
        """The same, which is not begun any more then."""
        words = self.words(proposal, hunks)
        places = {remark.place for remark in self._going(proposal, hunks)[1]}
        if left := [remark for remark in self.remarks.pop(proposal.id, []) if remark.place not in places]:
            self.remarks[proposal.id] = left
        if words.feedback:
            del self.drafts[proposal.id]
        return words

    def unfinished(self, proposal: Proposal, hunks: Collection[str] | None = None) -> list[str]:
        """Of what would be said, what the user has neither sent nor saved yet."""
        feedback, remarks = self._going(proposal, hunks)
        return [text for text in (feedback.strip(), *(item.text for item in remarks if item.draft)) if text]

    def _going(self, proposal: Proposal, hunks: Collection[str] | None) -> tuple[str, list[Remark]]:
        """The feedback and the remarks that go with a decision."""
        known = self.remarks.get(proposal.id, [])
        redone = {remark.place for remark in known if remark.draft}
        remarks = [remark for remark in known if remark.draft or remark.place not in redone]
        if hunks is None or _leaves_nothing(proposal, hunks):
            return self.drafts.get(proposal.id, ""), remarks
        return "", [remark for remark in remarks if _lies_in(remark, proposal, hunks)]

    def give_back(self, key: str, words: Words) -> None:
        """Put words that could not be said back where they were."""
        if words.feedback:
            self.drafts[key] = "\n\n".join(filter(None, (words.feedback, self.drafts.get(key, ""))))
        if words.comments:
            known = self.remarks.setdefault(key, [])
            back = [Remark.of(comment) for comment in words.comments]
            known[:] = sorted({*known, *back}, key=lambda item: (item.path, item.line))

    def said(self, key: str, words: Words) -> None:
        """Note what went to the model with a decision."""
        if words.comments:
            self.sent[key] = (*self.sent.get(key, ()), *words.comments)


def _leaves_nothing(proposal: Proposal, hunks: Collection[str]) -> bool:
    """Whether nothing of a proposal waits any more once these hunks are decided."""
    bare = any(not change.hunks and change.state is HunkState.PENDING for change in proposal.files)
    return not bare and all(hunk.id in hunks for hunk in pending_of(proposal.hunks))


def _lies_in(remark: Remark, proposal: Proposal, hunks: Collection[str]) -> bool:
    """Whether a remark is on a line of one of these hunks."""
    of_file = (hunk for change in proposal.files if change.path == remark.path for hunk in change.hunks)
    return any(hunk.id in hunks and remark.line in lines_of(hunk, remark.side) for hunk in of_file)
