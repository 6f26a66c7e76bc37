"""What follows a decision: whether the user's words are heard, the model goes on, and where the focus is then."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from app.agent.updates import PhaseChanged
from app.ui.preferences import Preferences
from app.ui.session import CurrentSession
from widgets.approval.review import Review

if TYPE_CHECKING:
    from app.agent.updates import Update
    from app.proposals.models import Proposal

_WITH_THE_ANSWER = " Your words go to the model with your answer to its question."


class Aftermath:
    """Follows up on the decisions of one review."""

    def __init__(
        self, review: Review, session: CurrentSession, preferences: Preferences, leave: Callable[[], None]
    ) -> None:
        """Nothing is decided yet.

        Args:
            review: where the user decides.
            session: whose model hears of it.
            preferences: say whether the model goes on by itself.
            leave: leads back to the composer.
        """
        self._review = review
        self._session = session
        self._preferences = preferences
        self._leave = leave
        self._deciding = False
        """Whether the user is at deciding, and is led back to the composer after the last decision."""

    def begins(self) -> None:
        """The user decides."""
        self._deciding = True

    def breaks_off(self) -> None:
        """The user goes back on a decision or away from the review, or it failed: the focus is where it is wanted."""
        self._deciding = False

    def settle(self) -> None:
        """Lead back to the composer once nothing waits for a decision and the model is done."""
        session, review = self._session.now, self._review
        busy = session is not None and session.busy
        if not self._deciding or busy or review.state.waiting_count:
            return
        self._deciding = False
        if review.in_focus and review.deciding.question is None:
            self._leave()

    def words_sent(self, about: "Sequence[Proposal]") -> str:
        """What becomes of words that were said with decisions on these, as a sentence."""
        if all(one.origin.kind == "agent" for one in about):
            return f" Your words go to {' and '.join(dict.fromkeys(one.origin.agent_name for one in about))}."
        session = self._session.now
        if all(one.session not in ("", session.id if session else "") for one in about):
            sessions = "sessions" if len({one.session for one in about}) > 1 else "session"
            return f" Your words go to the {sessions} of {' and '.join(one.id for one in about)}."
        if session is None:
            return " There is no model that could read your words; they are in the log."
        if session.question is not None:
            return _WITH_THE_ANSWER
        return " Your words are on their way to the model."

    async def go_on(self, proposal: "Proposal", *, asked: bool) -> str:
        """Let the model go on after an approval if that is wanted; what comes of it, as a sentence.

        Args:
            proposal: the one that was written last.
            asked: by key; else the settings may want it, once nothing waits any more.
        """
        session = self._session.now
        if not asked and not (self._preferences.settings.continue_after_approval and await self._nothing_waits()):
            return ""
        if proposal.origin.kind == "agent":
            return f" It is of {proposal.origin.agent_name}, which goes on by itself."
        if proposal.session and (session is None or proposal.session != session.id):
            return " It is of another session, whose model goes on there."
        if session is None:
            return " There is no model yet that could go on."
        if session.follows:
            return " Let the model go on in the window that has this session open."
        if session.question is not None:
            return " The model goes on once you have answered its question."
        await session.resume()
        return " The model goes on."

    def follow(self, update: "Update") -> None:
        """Take in what the session says."""
        session = self._session.now
        if session is None or not isinstance(update, PhaseChanged) or session.busy:
            return
        # What was said to be under way has come, or waits for an answer now.
        waits = session.unheard and session.question is not None
        self._review.turn_over(_WITH_THE_ANSWER.strip() if waits else "")
        self.settle()

    async def _nothing_waits(self) -> bool:
        return not any(one.state.waiting for one in await self._session.open_session.proposals())
