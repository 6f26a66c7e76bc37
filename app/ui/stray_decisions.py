"""A decision that was typed into the chat: one letter and Enter, while something waits in the review.

Kept apart: what is no message although it was sent.
"""

from collections.abc import Mapping

from app.actions import ACTIONS
from app.keymap import DECISIONS, key_name, keys_of


def is_decision(text: str, keys: Mapping[str, str]) -> bool:
    """Whether a message is just a key that decides in the review."""
    return len(text) == 1 and any(
        text == key_name(key) for action in ACTIONS if action.id in DECISIONS for key in keys_of(action, keys)
    )


def not_sent(text: str) -> str:
    """What the user is told of such a message."""
    return f"“{text}” was not sent: as a key it decides here. To say it to the model, write a few words."
