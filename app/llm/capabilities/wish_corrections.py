"""What a refusal teaches about the user's request settings: which of them the server does not take."""

import re
from collections.abc import Iterator

from app.llm.capabilities.correction import Correction, Rule, changed
from app.llm.capabilities.profile import Profile
from app.llm.failures.errors import Failure
from app.llm.types import Payload
from app.llm.wishes import EFFORT

_REASONING = r"(?<!\w)reasoning[._]effort(?!\w)|(?<!\w)effort(?!\w)"
_EFFORT = {
    **dict.fromkeys(("chat", "responses"), rf"{_REASONING}|['\"`]reasoning['\"`]|support (?:reasoning|thinking)"),
    # Not what is said of thinking that goes back: that has a rule of its own.
    "anthropic": (
        r"(?<!\w)effort(?!\w)|output_config|budget_tokens|(?<!\w)thinking[.:]|adaptive|"
        r"(?:not|n't) support .{0,20}thinking|thinking['\"`]? (?:is|are) not|['\"]thinking['\"]"
    ),
}
"""How servers name the effort, by wire."""


def _wishes(profile: Profile, failure: Failure, payload: Payload) -> Iterator[Correction]:
    for name, value in payload.wishes.without(profile.refused).values().items():
        pattern = _EFFORT[profile.wire] if name == EFFORT else rf"(?<!\w){re.escape(name)}(?!\w)"
        if re.search(pattern, failure.text, re.IGNORECASE):
            notice = f"The server does not take {name} = {_shown(value)}; requests go without it from now on."
            yield changed(f"without:{name}", profile, notice, refused={**profile.refused, name: value})


def _shown(value: object) -> str:
    """A value as it stands in the configuration, not too long."""
    match value:
        case bool():
            return str(value).lower()
        case str():
            return f'"{value[:40]}"'
        case dict():
            return "{…}"
        case list():
            return "[…]"
    return str(value)


WISH_RULES: tuple[Rule, ...] = (_wishes,)
"""Before those that would change something else for a word that is a field's name."""
