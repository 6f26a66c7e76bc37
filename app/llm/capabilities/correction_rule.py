"""A correction of an endpoint's profile, and the rules that find one in a refusal.

Kept apart: the rules are in several modules.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from app.llm.failures.request_errors import Failure
from app.llm.values.profile import Profile
from app.llm.values.types import Payload


@dataclass(frozen=True, slots=True)
class Correction:
    """A better profile, and the notice for the user."""

    name: str
    """Which rule and rung; a request uses each at most once."""
    profile: Profile
    notice: str


Rule = Callable[[Profile, Failure, Payload], Iterator[Correction]]
"""What may cure the failure, the likeliest first."""


def profile_change(name: str, profile: Profile, notice: str, **changes: Any) -> Correction:
    """Return the correction that makes these changes."""
    return Correction(name, profile.model_copy(update=changes), notice)


def rule_for(pattern: re.Pattern[str], name: str, notice: str, **changes: Any) -> Rule:
    """Return the rule: a server that says this needs these changes."""

    def rule(profile: Profile, failure: Failure, _: Payload) -> Iterator[Correction]:
        if pattern.search(failure.text):
            yield profile_change(name, profile, notice, **changes)

    return rule
