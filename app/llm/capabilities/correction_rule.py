"""One thing that a refusal may teach, and how a rule says so.

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
    """A better profile, and what to tell the user."""

    name: str
    """Which rule and rung; a request uses each at most once."""
    profile: Profile
    notice: str


Rule = Callable[[Profile, Failure, Payload], Iterator[Correction]]
"""What may cure the failure, the likeliest first."""


def changed(name: str, profile: Profile, notice: str, **changes: Any) -> Correction:
    """The correction that makes these changes."""
    return Correction(name, profile.model_copy(update=changes), notice)


def where_said(pattern: re.Pattern[str], name: str, notice: str, **changes: Any) -> Rule:
    """The rule that a server which says this wants these changes."""

    def rule(profile: Profile, failure: Failure, _: Payload) -> Iterator[Correction]:
        if pattern.search(failure.text):
            yield changed(name, profile, notice, **changes)

    return rule
