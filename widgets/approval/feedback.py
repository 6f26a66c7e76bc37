"""Feedback for a denial: several lines of the user's words, beside the comments that go with them."""

from collections.abc import Sequence

from textual.content import Content

from app.proposals.models import Proposal
from app.text.plural import plural
from app.tools.contract import Confirmation
from widgets.approval.notes import Remark
from widgets.approval.verdicts import can_be_asked_anew
from widgets.approval.wording import safe
from widgets.diff.writing import WritingField

_LISTED = 5
"""Comments listed in full; the rest are counted."""


class FeedbackField(WritingField):
    """Where the user says what should be different."""

    def __init__(self) -> None:
        super().__init__("send to the model", id="feedback")

    def open_for(self, proposal: Proposal, remarks: Sequence[Remark], draft: str) -> None:
        """Ask what should be different about a proposal."""
        title = Content.assemble(f"Request changes to {proposal.id}  ", safe(proposal.summary, "$foreground 65%"))
        context = [
            Content.assemble(safe(f"{remark.path}:{remark.line + 1}", "$text-accent"), "  ", safe(remark.text))
            for remark in remarks[:_LISTED]
        ]
        if len(remarks) > _LISTED:
            context.append(Content(f"and {plural(len(remarks) - _LISTED, 'more comment')}"))
        if context:
            context.append(Content("These comments are sent along; a text of your own is optional."))
        if can_be_asked_anew(proposal):
            context.append(safe(f"Why it is stale is sent: {proposal.reason}. A text of your own is optional."))
        self.open(proposal.id, title, draft, context)

    def open_for_confirmation(self, key: str, confirmation: Confirmation, draft: str) -> None:
        """Ask why not."""
        title = Content.assemble("Deny ", safe(confirmation.detail, "$text-warning"), " and say why")
        self.open(key, title, draft)
