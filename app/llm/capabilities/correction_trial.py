"""Corrections of one request: on trial until a response shows that they were right.

A refusal has many possible reasons and few words. A correction after which the server complains of the same thing
was in vain and is taken back before the next one is tried; what is left when a response comes is what cured the
request. If none comes, nothing was learned.
"""

from typing import TYPE_CHECKING, Any

from app.llm.failures.request_errors import Failure
from app.llm.values.profile import Profile
from app.llm.values.types import Payload, ProfileCorrected

if TYPE_CHECKING:
    from app.llm.capabilities.corrections import Correction


class CorrectionTrial:
    """The corrections of one request."""

    def __init__(self, profile: Profile) -> None:
        """`profile` is what is known before."""
        self.profile = profile
        """What the next attempt is to follow."""
        self._known = profile
        self._kept: list[Correction] = []
        """In the order tried; the last one is on trial."""
        self._before: tuple[Profile, Payload] | None = None
        """Profile and payload that the last correction was made for."""
        self._tried: set[str] = set()

    def add_fact(self, **facts: Any) -> None:
        """Add something that is true however this request ends."""
        self.profile = self.profile.model_copy(update=facts)
        self._known = self._known.model_copy(update=facts)

    def correct(self, failure: Failure, payload: Payload) -> bool:
        """Take the refusal of `payload`; return whether there is another profile to try, which `profile` is then."""
        # Imported when something fails: its many patterns take their time to compile.
        from app.llm.capabilities.corrections import find_correction

        if self._kept and self._before is not None:
            last, (profile, refused) = self._kept[-1], self._before
            again = find_correction(profile, failure, refused, self._tried - {last.name})
            if again is not None and again.name == last.name:
                self._kept.pop()
                self.profile, payload = profile, refused
        found = find_correction(self.profile, failure, payload, self._tried)
        if found is None:
            return False
        self._before = self.profile, payload
        self._tried.add(found.name)
        self._kept.append(found)
        self.profile = found.profile
        return True

    def confirmed(self) -> tuple[dict[str, Any], list[ProfileCorrected]]:
        """Return, once a response has come, the confirmed fields and the notices for the user."""
        changed = {field: value for field, value in iter(self.profile) if value != getattr(self._known, field)}
        return changed, [ProfileCorrected(self.profile, one.notice) for one in self._kept]
