"""The user's words about what is in the review: from the field they are written in to the decision they go with."""

from collections.abc import Callable
from dataclasses import replace

from textual.message import Message

from app.images.mentions import Mention
from app.proposals.models import FileDiff
from widgets.approval.feedback import FeedbackField
from widgets.approval.messages import NotesChanged, Stranded
from widgets.approval.notes import Remark, Words
from widgets.approval.remarks import quoting
from widgets.approval.state import ReviewState
from widgets.chat.dropped import Dropped
from widgets.diff.pane import DiffPane


class Writing:
    """Keeps every word as it is written, in the state of a review, until it is said or handed on."""

    def __init__(
        self, state: ReviewState, field: FeedbackField, diff_pane: DiffPane, post: Callable[[Message], object]
    ) -> None:
        """Begin with nothing written.

        Args:
            state: where the words are kept.
            field: where feedback is written.
            diff_pane: where comments on lines are.
            post: takes the messages about words that are to be kept elsewhere.
        """
        self._state = state
        self._field = field
        self._diff_pane = diff_pane
        self._post = post
        self.dropped = Dropped()
        """The images that were dropped on the terminal while the user wrote here."""

    def open(self) -> bool:
        """Let the user write about what is shown; whether that can be."""
        key = self._state.current
        draft = self._state.unsaid.drafts.get(key, "")
        if self._state.confirmation is not None:
            self._field.open_for_confirmation(key, self._state.confirmation, draft)
        elif (proposal := self._state.proposal) is not None and proposal.state.waiting:
            self._field.open_for(proposal, self._state.unsaid.remarks.get(key, ()), draft)
        return self._field.is_open

    def keep(self, key: str) -> None:
        """Have kept what is begun on a proposal; a permission is gone with its turn."""
        if key not in self._state.permissions.asked:
            self._post(NotesChanged(key, self._state.notes(key)))

    def put_aside(self, key: str, text: str) -> None:
        """Keep feedback that is begun."""
        self._state.unsaid.put_aside(key, text)
        self.keep(key)

    def comment(self, event: DiffPane.Commented, diffs: tuple[FileDiff, ...]) -> None:
        """Take a comment on a line; `diffs` are those of the shown proposal."""
        proposal = self._state.get(event.proposal)
        if proposal is None:
            self._hand_on(event.text if event.saved else "")
            return
        remark = Remark(event.path, event.line.side, event.line.line, event.text, draft=not event.saved)
        if proposal.id == self._state.current:
            remark = quoting(remark, diffs)
        self._state.unsaid.remark(proposal, remark)
        self.keep(proposal.id)
        self.strand()

    def take(self, key: str, hunks: tuple[str, ...] | None = None) -> Words:
        """The words that go with the answer to a permission, or a decision on a proposal or on some hunks of it."""
        unsaid, proposal = self._state.unsaid, self._state.get(key)
        words = Words(unsaid.drafts.pop(key, "")) if proposal is None else unsaid.take(proposal, hunks)
        words = replace(words, mentions=self._mentioned(words))
        if words.feedback and self._field.is_open and self._field.subject == key:
            self._field.close()
        if self._diff_pane.commenting == key and not any(one.draft for one in unsaid.remarks.get(key, ())):
            self._diff_pane.end_comment()
        return words

    def _mentioned(self, words: Words) -> tuple[Mention, ...]:
        """The files that the user names. What they quote is somebody else's words, which name nothing for them."""
        texts = (words.feedback, *(comment.text for comment in words.comments))
        own = (line for text in texts for line in text.split("\n") if not line.lstrip().startswith(">"))
        return self.dropped.mentions("\n".join(own))

    def said(self, key: str, words: Words) -> None:
        """The words are in the log now."""
        self._state.unsaid.said(key, words)
        self.keep(key)

    def give_back(self, key: str, words: Words) -> None:
        """The decision failed, and its words were not said."""
        self._state.unsaid.give_back(key, words)
        self.keep(key)

    def strand(self) -> None:
        """Hand on the words about what does not wait any more, unless they are being written."""
        unsaid = self._state.unsaid
        for key in {*unsaid.drafts, *unsaid.remarks}:
            proposal = self._state.get(key)
            if proposal is not None and not proposal.state.waiting and not self._is_about(key):
                self._hand_on(unsaid.take(proposal).text)
                self.keep(key)

    def end(self, key: str) -> None:
        """The field was closed; what was written about a permission that is gone is handed on."""
        if self._state.get(key) is None and key not in self._state.permissions.asked:
            self._hand_on(self._state.unsaid.drafts.pop(key, ""))
        self.strand()

    def end_permission(self, key: str) -> None:
        """The question of a tool is gone; what is being written about it stays until the field is closed."""
        if not (self._field.is_open and self._field.subject == key):
            self._hand_on(self._state.unsaid.drafts.pop(key, ""))

    def _hand_on(self, text: str) -> None:
        """Let go of words whose subject is gone."""
        if text.strip():
            self._post(Stranded(text))

    def _is_about(self, key: str) -> bool:
        """Whether the user is writing about a proposal."""
        return (self._field.is_open and self._field.subject == key) or self._diff_pane.commenting == key
