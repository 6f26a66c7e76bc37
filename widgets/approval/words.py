"""The user's words about what is in the review: from the field they are written in to the decision they go with."""

from widgets.approval.comments import quoting
from widgets.approval.notes import Remark, Words
from widgets.approval.panes import ReviewPanes
from widgets.diff.pane import DiffPane


class Writing:
    """Keeps every word as it is written, in the state of a review, until it is said or handed on."""

    def __init__(self, review: ReviewPanes) -> None:
        """Whose words."""
        self._review = review
        self._state = review.state
        self._field = review.feedback

    def open(self) -> bool:
        """Let the user write about what is shown; whether that can be."""
        key = self._state.current
        draft = self._state.drafts.get(key, "")
        if self._state.confirmation is not None:
            self._field.open_for_confirmation(key, self._state.confirmation, draft)
        elif (proposal := self._state.proposal) is not None and proposal.state.waiting:
            self._field.open_for(proposal, self._state.remarks.get(key, ()), draft)
        return self._field.is_open

    def put_aside(self, key: str, text: str) -> None:
        """Keep what is begun; words about what is gone are handed on."""
        if text:
            self._state.drafts[key] = text
        else:
            self._state.drafts.pop(key, None)
        self._review.keep_notes(key)

    def comment(self, event: DiffPane.Commented) -> None:
        """Take a comment on a line."""
        proposal = self._state.get(event.proposal)
        if proposal is None:
            self._review.strand(event.text if event.saved else "")
            return
        remark = Remark(event.path, event.line.side, event.line.line, event.text, draft=not event.saved)
        if proposal.id == self._state.current:
            remark = quoting(remark, self._review.diffs)
        self._state.remark(proposal, remark)
        self._review.keep_notes(proposal.id)
        self.strand()

    def take(self, key: str, hunks: tuple[str, ...] | None = None) -> Words:
        """The words that go with the answer to a permission, or a decision on a proposal or on some hunks of it."""
        proposal = self._state.get(key)
        if proposal is None:
            words = Words(self._state.drafts.pop(key, ""))
        else:
            words = self._state.take_words(proposal, hunks)
        if words.feedback and self._field.is_open and self._field.subject == key:
            self._field.close()
        if self._review.diff_pane.commenting == key and not any(
            one.draft for one in self._state.remarks.get(key, ())
        ):
            self._review.diff_pane.end_comment()
        return words

    def said(self, key: str, words: Words) -> None:
        """The words are in the log now."""
        self._state.said(key, words)
        self._review.keep_notes(key)

    def give_back(self, key: str, words: Words) -> None:
        """The decision failed, and its words were not said."""
        self._state.give_back(key, words)
        self._review.keep_notes(key)
        self._review.show_choice()

    def strand(self) -> None:
        """Hand on the words about what does not wait any more, unless they are being written."""
        for key in {*self._state.drafts, *self._state.remarks}:
            proposal = self._state.get(key)
            if proposal is not None and not proposal.state.waiting and not self._is_about(key):
                self._review.strand(self._state.take_words(proposal).text)
                self._review.keep_notes(key)

    def end(self, key: str) -> None:
        """The field was closed; what was written about a permission that is gone is handed on."""
        if self._state.get(key) is None and key not in self._state.confirmations:
            self._review.strand(self._state.drafts.pop(key, ""))
        self.strand()

    def _is_about(self, key: str) -> bool:
        """Whether the user is writing about a proposal."""
        return (self._field.is_open and self._field.subject == key) or self._review.diff_pane.commenting == key
