"""The payload of a side question: the conversation as it would go out, and the question at its end; made to fit.

What is left out to make room (surroundings first, then what was said in the thread, then history) is left out of this
request alone: nothing is recorded, so the conversation goes on as if it had not been asked.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from app.conversation.compaction.plan import Prune, budget_for, plan, room_needed
from app.conversation.compaction.tokens import TokenMeter
from app.conversation.events import AssistantMessage, Compacted, Event, Pruned
from app.conversation.payload.projection import Aside, Facts, project
from app.llm.capabilities.profile import Profile
from app.llm.types import Payload


@dataclass(frozen=True, slots=True)
class SideRequest:
    """A side question, ready to be made a payload of for whatever the endpoint turns out to honour."""

    events: Sequence[Event]
    """The log, without what is still being worked on."""
    facts: Facts
    """As for any request of the session."""
    project: Callable[[Sequence[Event], Profile, Facts], Payload]
    """Makes the payloads of the log; keeps what is the same in the next request of the conversation."""
    meter: TokenMeter
    briefs: Sequence[str]
    """What the program says about it, the widest first."""
    question: str
    earlier: Sequence[tuple[str, str]]
    """What was said in the thread before."""

    def payload(self, profile: Profile, *, tight: bool = False) -> Payload:
        """The payload; `tight` leaves out as much as can be, for a server that has said that its context is full."""
        window = profile.context_window
        if not tight:
            for aside in self._asides():
                payload = self.project(self.events, profile, replace(self.facts, aside=aside))
                if not room_needed(self.meter.tokens(payload), window):
                    return payload
        events = self._shortened(profile)
        for aside in [] if tight else self._asides():
            payload = self._project(events, profile, aside)
            if not room_needed(self.meter.tokens(payload), window):
                return payload
        return self._project(events, profile, self._least)

    def _asides(self) -> list[Aside]:
        """The ways to ask, from the one with most around it to the least."""
        return [*(Aside(brief, self.question, self.earlier) for brief in self.briefs), self._least]

    @property
    def _least(self) -> Aside:
        return Aside(self.briefs[-1], self.question)

    def _project(self, events: Sequence[Event], profile: Profile, aside: Aside) -> Payload:
        return project(events, profile, replace(self.facts, aside=aside))

    def _shortened(self, profile: Profile) -> Sequence[Event]:
        """The log with the oldest of it left out, as a compaction without a summary would."""
        events = list(self.events)
        used = self.meter.tokens(self.project(events, profile, replace(self.facts, aside=self._least)))
        budget = budget_for(used, profile.context_window, forced=True, factor=self.meter.factor)
        while budget is not None and (step := plan(events, budget, summarise=False)) is not None:
            if isinstance(step, Prune):
                events.append(Pruned(results=step.results, images=step.images))
            else:
                events.append(Compacted(upto=step.upto, summary="", method="truncation"))
            budget = replace(budget, used=self.meter.tokens(self._project(events, profile, self._least)))
        return events


def settled(events: Sequence[Event], unfinished: AssistantMessage | None) -> Sequence[Event]:
    """The log without a response whose calls still run: what becomes of them nobody can say yet."""
    return tuple(event for event in events if event is not unfinished)
