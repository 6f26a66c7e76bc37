"""Carries out the user's actions in the chat: messages, answers, sessions, drafts."""

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Protocol

from app.keys.actions import ACTIONS
from app.keys.keymap import DECISION_ACTION_IDS, effective_keys, key_display_name
from app.text.safe_text import escape_unsafe
from app.ui.context.app_context import AppContext
from app.ui.context.current_session import CurrentSession
from widgets.chat.composer_field import ComposerDraft

if TYPE_CHECKING:
    from app.conversation.events import CustomCommandInvocation, Event
    from app.images.image import Image
    from app.images.image_files import MentionedImage
    from app.images.mentions import Mention
    from app.proposals.values.decision_facts import LineComment
    from app.storage.session_store import SessionRecord
    from app.ui.workbench import Workbench
    from widgets.chat.composer import Composer
    from widgets.review.review import ReviewPane


def is_only_a_decision_key(text: str, keymap: Mapping[str, str]) -> bool:
    """Return whether a message consists of one key that decides in the review."""
    return len(text) == 1 and any(
        text == key_display_name(key)
        for action in ACTIONS
        if action.id in DECISION_ACTION_IDS
        for key in effective_keys(action, keymap)
    )


_MODEL_FOLLOWS_HINT = (
    "This session is open in another window, where it runs. Here you can watch it and decide; "
    "/fork goes on with a copy."
)


class ChatHost(Protocol):
    """The methods of the app that the chat uses."""

    @property
    def keymap(self) -> Mapping[str, str]:
        """Return the user's key changes by action id."""

    async def show_proposals(self) -> None:
        """Update the review."""

    async def wait_until_shown(self) -> None:
        """Return once all updates of the session are on the screen."""


class ChatController:
    """Controller of the chat and its composer; messages wait until a session is open."""

    def __init__(
        self, workbench: "Workbench", session: CurrentSession, app_context: AppContext, host: ChatHost
    ) -> None:
        self.workbench = workbench
        self.session = session
        self._app_context = app_context
        self._host = host
        self.show_proposals = host.show_proposals
        self._send_lock = asyncio.Lock()
        self._draft_session_id = ""
        """Id of the session that the composer's draft belongs to; empty while a session is being opened."""
        self._former_draft = ""
        """The composer's draft when the session began to open."""
        self._is_draft_changed = False
        """Whether the user has changed the draft since the session began to open."""
        workbench.composer.dropped.find_dropped_files = self.images_in_paste

    async def open_session(self, record: "SessionRecord | None") -> None:
        """Show a session, a new one if `record` is None."""
        host, chat = self.session.host, self.workbench.chat
        self._former_draft = chat.composer.stored_draft if host.session is not None else ""
        # The message that reports the last change of the draft may arrive later: `/new` would stay in the former one.
        self.save_draft(self._former_draft)
        self._draft_session_id, self._is_draft_changed = "", False
        try:
            session = await host.open(record)
        except Exception:
            self._draft_session_id = host.session.id if host.session is not None else ""
            raise
        # Show the last updates of the former session before its transcript is replaced.
        await self._host.wait_until_shown()
        chat.show_session(session.log.events)
        history = await asyncio.to_thread(host.runtime.sessions.sent_messages)
        draft = await host.drafts.load(session.id, fresh=record is None)
        if not self._is_draft_changed and chat.composer.stored_draft == self._former_draft:
            chat.composer.restore_draft(draft)
        elif draft:
            # The user has typed meanwhile: keep that text, and offer the stored draft in the history.
            history.append(ComposerDraft.load(draft).text)
        chat.composer.set_history(history)
        self._draft_session_id = session.id
        host.drafts.save(session.id, chat.composer.stored_draft)
        chat.composer.set_queued_messages(session.queue)
        self.restore_to_composer(session.take_back_queue())
        if session.is_follower:
            self._app_context.notify(_MODEL_FOLLOWS_HINT)
        self.workbench.call_when_review_mounted(partial(_restore_sent_comments, session.log.events))
        await self.show_proposals()

    def show_hint(self, text: str) -> None:
        """Show a hint in the empty composer."""
        self._composer.set_placeholder(text)

    def show_chat(self) -> None:
        """Show the chat and focus its composer."""
        self.workbench.show_pane("chat")

    def toggle_todos(self) -> bool:
        """Unfold or fold the to-do list; return whether there is one."""
        return self.workbench.chat.todo_bar.toggle_folded()

    async def go_to_event(self, session_id: str, event: int) -> None:
        """Show an event of a session; opens the session if it is not on the screen."""
        from app.conversation.events import find_side_event_location

        if (current := self.session.current) is None or current.id != session_id:
            store = self.session.host.runtime.sessions
            await self.open_session(await asyncio.to_thread(store.get, session_id))
        log = self.session.require_session().log.events
        if (thread := find_side_event_location(log, event)) is not None:
            # Side questions are shown only beside their hunk in the review.
            await self.open_proposal(thread.proposal)
            self.workbench.call_when_review_mounted(lambda review: review.show_thread(thread))
            return
        self.workbench.show_pane("chat")
        await self.workbench.chat.scroll_to_event(log, event)

    # Messages

    async def send_message(
        self, text: str, command: "CustomCommandInvocation | None" = None, mentions: "Sequence[Mention]" = ()
    ) -> None:
        """Send a message, which `command` may have made, to the model; put it back into the composer on an error."""
        try:
            if command is None and self.session.workspace_attached.is_set() and self._redirect_decision_key(text):
                return
            async with self._send_lock:
                # Messages wait here in order until the session is open.
                session = await self.session.wait_for_session()
                images = await self.load_images(mentions)
            await session.send(text, command, images)
        except Exception:
            self._prepend_to_draft([command.typed if command else text])
            raise

    def _redirect_decision_key(self, text: str) -> bool:
        """Return whether the message is just a decision key while something waits in the review; if so, go there."""
        if not self.workbench.awaits_review or not is_only_a_decision_key(text, self._host.keymap):
            return False
        self.workbench.enter_review("approvals")
        self._app_context.notify(
            f"“{text}” was not sent, because that key decides in the review. To tell the model, write a few words."
        )
        return True

    async def answer_question(self, text: str, call_id: str, mentions: "Sequence[Mention]" = ()) -> None:
        """Answer the model's question; if an image cannot be sent, put the text back into the composer."""
        await self.session.wait_until_open()
        try:
            images = await self.load_images(mentions)
        except Exception:
            self._prepend_to_draft([text])
            raise
        await self.session.require_session().answer(text, call_id, images)

    # Images

    async def load_images(
        self, mentions: "Sequence[Mention]", consequence: str = "Nothing was sent"
    ) -> "tuple[Image, ...]":
        """Return the images among the mentioned files.

        Args:
            consequence: Beginning of the error message if an image cannot be sent, such as "Nothing was sent".

        Raises:
            ImageNotAttached: an image cannot be sent.
        """
        if not mentions:
            # The import below would delay the first message by several frames.
            return ()
        from app.images.image_files import ImageNotAttached, load_and_store_images

        session = self.session.current
        wire = session.ports.model.profile.wire if session is not None else ""
        try:
            runtime = self.session.host.runtime
            put_blobs = runtime.proposals.put_blobs
            return await load_and_store_images(runtime.workspace, put_blobs, mentions, wire, self._confirm_image)
        except ImageNotAttached as error:
            raise ImageNotAttached(f"{error} {consequence}: without the @ a file is only named.") from error

    async def _confirm_image(self, candidate: "MentionedImage") -> bool:
        from app.ui.screens.dialog import ConfirmScreen

        name = escape_unsafe(candidate.path, keep="")
        question = f"{name} would go to the model as an image, but {candidate.confirmation_reason}."
        send = await self._app_context.push_screen(
            ConfirmScreen("Send this image to the model?", question, "send it", "only name it")
        )
        return send is True

    async def images_in_paste(self, text: str) -> "Sequence[Mention]":
        """Return the images if a pasted text consists of image paths."""
        from app.images.image_files import parse_image_only_paste

        if not self.session.workspace_attached.is_set():
            return ()
        return await parse_image_only_paste(self.session.host.runtime.workspace, text)

    # Drafts

    def add_to_composer(self, text: str) -> None:
        """Move feedback whose proposal is already decided to the composer."""
        self.restore_to_composer([text])
        self._app_context.notify("Your words are in the composer, because their proposal is already decided.")

    def restore_to_composer(self, texts: Sequence[str]) -> None:
        """Insert texts before the draft in the composer, and store them in the draft instead of the queue."""
        if texts:
            self._prepend_to_draft(texts)
            host, draft = self.session.host, self._composer.stored_draft
            self._app_context.run(partial(host.take_queue_into_draft, draft), group="queue")

    def interrupt(self) -> None:
        """Stop the model; queued messages go back to the composer."""
        if (session := self.session.current) is not None and session.is_busy:
            self.restore_to_composer(session.interrupt())

    def take_back_queued_messages(self) -> None:
        """Move the queued messages back to the composer; the model continues."""
        if (session := self.session.current) is not None:
            self.restore_to_composer(session.take_back_queue())

    def save_draft(self, draft: str) -> None:
        """Save the composer's draft for the next start."""
        self._is_draft_changed |= draft != self._former_draft
        if self._draft_session_id:
            self.session.host.drafts.save(self._draft_session_id, draft)

    def _prepend_to_draft(self, texts: Sequence[str]) -> None:
        self._composer.draft = "\n\n".join(part for part in (*texts, self._composer.draft) if part)

    @property
    def _composer(self) -> "Composer":
        return self.workbench.composer

    # Navigation

    async def open_proposal(self, proposal_id: str) -> None:
        """Show a proposal in the review, however old it is."""
        await self.session.wait_until_open()
        await self.session.host.show_proposal(proposal_id)
        await self.show_proposals()
        self.workbench.call_when_review_mounted(lambda review: review.show_item(proposal_id))
        self.workbench.show_pane("diff")


def _restore_sent_comments(events: "Sequence[Event]", review: "ReviewPane") -> None:
    """Give the review the comments that this session sent, so that it checks them against the next version."""
    from app.conversation.events import ProposalDecided

    # A proposal may be denied in several parts, each with comments. Ticks refer to comments by number: keep them all.
    comments_by_proposal: dict[str, list[LineComment]] = {}
    for event in events:
        if isinstance(event, ProposalDecided) and event.comments:
            comments_by_proposal.setdefault(event.proposal, []).extend(event.comments)
    for proposal_id, comments in comments_by_proposal.items():
        review.set_sent_comments(proposal_id, comments)
