"""The left side of the workbench: the chat, and the routing of its messages."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from textual import on
from textual.app import ComposeResult
from textual.content import Content

from app.keys.keymap import first_key_name
from app.text.safe_text import escape_unsafe
from app.ui.context.app_context import AppContext, ChatActions, open_link
from app.ui.context.current_session import CurrentSession
from app.workspace.broad_folder import describe_broad_folder
from app.workspace.paths import Workspace
from widgets.chat.chat_pane import ChatPane
from widgets.chat.composer import Composer
from widgets.chat.transcript import Transcript
from widgets.common.containers import Column

if TYPE_CHECKING:
    from app.config.settings import Settings


_KEY_COLUMN_WIDTH = 12


def welcome_lines(
    folder: str, keymap: Mapping[str, str], *, is_demo: bool = False, broad_folder: str = ""
) -> Sequence[Content]:
    """Return the lines of the greeting: sentences, and keys with their meaning.

    Args:
        is_demo: Whether the demo model answers, which knows only its sample repository.
        broad_folder: Description of a workspace that is larger than a project, such as the home folder; else empty.
    """

    def key(action_id: str) -> str:
        return first_key_name(action_id, keymap)

    def row(keys: str, *meaning: str | tuple[str, str]) -> Content:
        return Content.assemble((keys.ljust(_KEY_COLUMN_WIDTH), "bold $text-accent"), *meaning)

    decision_keys: list[str | tuple[str, str]] = ["then  "]
    for action_id, label in (("approve", "approve"), ("deny", "deny"), ("request_changes", "request changes")):
        decision_keys += [(key(f"review.{action_id}"), "bold $text-accent"), f" {label}  "]
    return (
        Content.assemble(
            ("signoff", "bold $text-accent"), (f" · {escape_unsafe(folder, keep='')}", "$foreground 65%")
        ),
        Content(""),
        Content("The model proposes, you sign off."),
        Content("Nothing on disk changes before you approve it."),
        *(
            [Content.assemble((f"This is {broad_folder}: the model can read all of it.", "$text-warning"))]
            if broad_folder
            else []
        ),
        Content(""),
        *([row("Try", "fix the failing tests")] if is_demo else []),
        row(key("app.focus_diff"), "read what the model wants to change"),
        row(key("app.focus_approvals"), *decision_keys),
        row("@", "mention a file"),
        row("/", "commands, such as /sessions and /model"),
        row(key("app.help"), "all keys"),
    )


class ChatArea(Column):
    """Holds the chat of an open workspace, and routes its messages."""

    def __init__(
        self,
        composer: Composer,
        workspace: Workspace,
        session: CurrentSession,
        chat: ChatActions,
        app_context: AppContext,
    ) -> None:
        super().__init__()
        self.pane = ChatPane(composer)
        self._workspace = workspace
        self._session = session
        self._chat = chat
        self._app_context = app_context
        composer.set_files(workspace.walk_files)
        self._shows_interventions = True
        """Whether the chat shows interventions, according to the settings that were applied last."""

    def compose(self) -> ComposeResult:
        yield self.pane

    def apply_settings(self, settings: "Settings") -> None:
        """Apply the settings, except where the user has changed the view by key."""
        root = self._workspace.root
        greeting = welcome_lines(
            root.name or str(root),
            settings.keys,
            is_demo=self._session.is_demo,
            broad_folder=describe_broad_folder(root),
        )
        self.pane.transcript.show_greeting(greeting)
        if settings.show_interventions != self._shows_interventions:
            self._shows_interventions = settings.show_interventions
            self.pane.transcript.action_toggle_interventions()

    @on(ChatPane.QuestionAnswered)
    def answer_question(self, event: ChatPane.QuestionAnswered) -> None:
        """Answer the model's question."""
        answering = partial(self._chat.answer_question, event.text, event.call, event.mentions)
        self._app_context.run(answering, group="command")

    @on(Transcript.ProposalOpened)
    def open_proposal(self, event: Transcript.ProposalOpened) -> None:
        """Show a proposal in the review, however old it is."""
        self._app_context.run(partial(self._chat.open_proposal, event.proposal_id))

    @on(Transcript.LinkOpened)
    def open_link(self, event: Transcript.LinkOpened) -> None:
        """Open the web address of a clicked link; other links are refused."""
        open_link(self.app, event.href, self._app_context.notify)
