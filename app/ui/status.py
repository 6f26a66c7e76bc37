"""Values of the status bar, and the updates that change it or need the user."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from app.agent.updates import (
    EventRecorded,
    GateOpenedOrClosed,
    PermissionRequested,
    PermissionResolved,
    PhaseChanged,
    Update,
)
from app.conversation.events import Question, SideAnswer, TurnEnded, TurnStarted, UserAnswer
from app.keys.keymap import first_key_name
from app.ui.context.current_session import CurrentSession
from app.workspace.git_repository import current_branch_or_commit
from widgets.common.workbench_bars import ReviewReadingStatus, StatusValues

if TYPE_CHECKING:
    from app.config.settings import Settings

_TURN_END_TEXTS = {
    "answer": "The model has answered.",
    "staged": "A proposal waits for you.",
    "question": "The model has a question.",
    "refused": "Control is back with you.",
    "failed": "The request failed.",
}


def make_status_values(
    settings: "Settings",
    current: CurrentSession,
    root: Path,
    waiting: int,
    reading: ReviewReadingStatus | None,
    *,
    in_review: bool,
    in_composer: bool,
) -> StatusValues:
    """Return the values of the status bar.

    Args:
        waiting: Number of proposals that await a decision.
        reading: How much of them the user has read; None before the review is loaded.
    """
    branch_name, session = current_branch_or_commit(root), current.current
    if session is None:
        return StatusValues(
            model=settings.model, waiting=waiting, branch=branch_name, reading=reading or ReviewReadingStatus()
        )
    policy = session.gate.policy
    asks: Literal["", "permission", "question"] = ""
    if session.permission_requests.open_requests:
        asks = "permission"
    elif session.question is not None:
        asks = "question"
    effort = current.host.effort
    chain = f"chain {len(session.gate.staged_proposals)}/{policy.max_staging_steps}"
    return StatusValues(
        model=settings.model,
        effort="" if effort == "off" else effort,
        gate_closed=session.gate.is_closed,
        follows=session.is_follower,
        plan=session.settings.plan,
        policy=chain if policy.kind == "chain" else "every-edit",
        waiting=waiting,
        reading=reading or ReviewReadingStatus(),
        context_tokens=session.context.used_tokens if session.log.events else 0,
        context_window=session.ports.model.profile.context_window or 0,
        spent=session.token_totals.total,
        branch=branch_name,
        denials=session.pending.denials_in_row,
        asks=asks,
        answer_key=_answer_key_names(
            asks, settings.keys, has_focus=in_review if asks == "permission" else in_composer
        ),
    )


def _answer_key_names(
    asks: Literal["", "permission", "question"], keymap: Mapping[str, str], *, has_focus: bool
) -> str:
    """Return the keys that answer a question if the focus is `has_focus`, else the key that moves it there."""
    match asks, has_focus:
        case "permission", True:
            return f"{first_key_name('review.approve', keymap)} or {first_key_name('review.deny', keymap)}"
        case "permission", False:
            return first_key_name("app.focus_approvals", keymap)
        case _, True:
            return first_key_name("composer.send", keymap)
    return first_key_name("app.focus_chat", keymap)


def changes_status(update: Update) -> bool:
    """Return whether an update changes the status bar."""
    match update:
        case GateOpenedOrClosed() | PhaseChanged() | PermissionRequested() | PermissionResolved():
            return True
        case EventRecorded(event=TurnEnded() | Question() | UserAnswer() | SideAnswer()):
            return True
    return False


def starts_turn(update: Update) -> bool:
    """Return whether an update starts a turn."""
    return isinstance(update, EventRecorded) and isinstance(update.event, TurnStarted)


def attention_notification_text(update: Update) -> str:
    """Return the text of the notification if the user is needed now; empty if not."""
    match update:
        case EventRecorded(event=TurnEnded(stopped=stopped)):
            return _TURN_END_TEXTS.get(stopped, "")
        case PermissionRequested():
            return "The model needs your permission."
    return ""
