"""How chat templates turn messages into what a model reads, in the kinds that real ones come in.

Of 64 templates of real models that were rendered, 48 take a system message in mid-conversation, eight drop it without
a word, four refuse it, and one loses the first one, too, unless the last word is the user's. These are of our own
wording, since the real ones have licences of their own.
"""

import re
from collections.abc import Callable
from typing import Any

from tests.wire.replies import Reply, error

Messages = list[dict[str, Any]]
Template = Callable[[Messages], str]


class Refused(Exception):
    """What the template raises."""


def takes_all(messages: Messages) -> str:
    """Whoever says something is named, wherever it stands."""
    return "\n".join(f"[{one['role']}] {one.get('content') or ''}" for one in messages)


def drops_later_system(messages: Messages) -> str:
    """The first system message is kept, and the others fall through the branches of the template."""
    return takes_all([messages[0], *(one for one in messages[1:] if one["role"] != "system")])


def refuses_later_system(messages: Messages) -> str:
    """Only the first message may be the system's."""
    if any(one["role"] == "system" for one in messages[1:]):
        raise Refused("System message must be at the beginning.")
    return takes_all(messages)


def knows_no_system(messages: Messages) -> str:
    """User and model, by turns."""
    if any(one["role"] == "system" for one in messages):
        raise Refused("System role not supported")
    return takes_all(messages)


def system_beside_the_last_user(messages: Messages) -> str:
    """The first system message is put beside the last user message if that ends the conversation, and nowhere else;
    others are refused, and so are ids of any length but nine."""
    if any(one["role"] == "system" for one in messages[1:]):
        raise Refused("Only user and assistant roles are supported, with the exception of an initial system message!")
    calls = [call for one in messages for call in one.get("tool_calls") or ()]
    if not all(re.fullmatch("[a-zA-Z0-9]{9}", call["id"]) for call in calls):
        raise Refused("Tool call IDs should be alphanumeric strings with length 9!")
    kept = messages if messages[-1]["role"] == "user" else [one for one in messages if one["role"] != "system"]
    return takes_all(kept)


TEMPLATES: tuple[Template, ...] = (
    takes_all,
    drops_later_system,
    refuses_later_system,
    knows_no_system,
    system_beside_the_last_user,
)


PLACEMENTS = {
    "takes_all": "inline",
    "drops_later_system": "fold_first",
    "refuses_later_system": "fold_first",
    "knows_no_system": "fold_user",
    "system_beside_the_last_user": "fold_user",
}
"""The placement of system messages that each needs, by its name."""
REFUSALS = [
    (template, status)
    for template in TEMPLATES
    for status in ((400,) if template in (takes_all, drops_later_system) else (400, 500))
]
"""Each with the status of what it raises, if it does."""


def refusal(template: Template, status: int) -> Callable[[dict[str, Any]], Reply | None]:
    """A validator that answers as a server does whose template raises."""

    def validate(body: dict[str, Any]) -> Reply | None:
        try:
            template(body["messages"])
        except Refused as words:
            prefix = "Jinja Exception: " if status >= 500 else ""
            return error(status, f"{prefix}{words}", code=status)
        return None

    return validate
