"""A decision that was typed into the chat: one letter and Enter, while something waits in the review.

Kept apart: the one place where typing comes near a decision.
"""

from collections.abc import Mapping

from app.actions import ACTIONS
from app.keymap import DECISIONS, first_key, key_name, keys_of
from app.ui.means import Ask
from app.ui.screens.ask import AskScreen


def is_decision(text: str, keys: Mapping[str, str]) -> bool:
    """Whether a message is just a key that decides in the review."""
    return len(text) == 1 and any(
        text == key_name(key) for action in ACTIONS if action.id in DECISIONS for key in keys_of(action, keys)
    )


async def is_meant(text: str, keys: Mapping[str, str], ask: Ask) -> bool:
    """Whether the user wants such a message sent nevertheless."""
    leads_there = first_key("app.focus_approvals", keys)
    question = (
        f"Something waits for your decision, and “{text}” decides only in the review, where {leads_there} leads. "
        "As a message it decides nothing, and the model goes on."
    )
    screen = AskScreen(f"Send “{text}” to the model?", question, "send it", "go to the review")
    send = await ask(screen)
    return send is True
