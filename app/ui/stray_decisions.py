"""A decision that was typed into the chat: one letter and Enter, while something waits in the review."""

from typing import TYPE_CHECKING

from app.actions import ACTIONS
from app.keymap import DECISIONS, first_key, key_name, keys_of

if TYPE_CHECKING:
    from app.ui.app import SignoffApp


async def meant_for_review(app: "SignoffApp", text: str) -> bool:
    """Whether a message is none, as the user says: asks if it is just a key that decides in the review."""
    if not (app.workbench.tabs.waiting or app.workbench.review.permissions) or not _is_decision(app, text):
        return False
    from app.ui.screens.ask import AskScreen

    leads_there = first_key("app.focus_approvals", app.settings.keys)
    question = (
        f"Something waits for your decision, and “{text}” decides only in the review, where {leads_there} leads. "
        "As a message it decides nothing, and the model goes on."
    )
    return not await app.push_screen_wait(
        AskScreen(f"Send “{text}” to the model?", question, "send it", "go to the review")
    )


def _is_decision(app: "SignoffApp", text: str) -> bool:
    return len(text) == 1 and any(
        text == key_name(key)
        for action in ACTIONS
        if action.id in DECISIONS
        for key in keys_of(action, app.settings.keys)
    )
