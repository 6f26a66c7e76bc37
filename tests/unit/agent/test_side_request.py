"""What is left out of a side question so that it fits, and in which order."""

import pytest

from app.agent.side_questions import SideRequest
from app.conversation.events import AssistantMessage, Event, TurnEnded, TurnStarted, UserMessage
from app.conversation.payload.projection import KeptProjection, PayloadInputs
from app.conversation.payload.token_count import TokenMeter
from app.llm.values.profile import Profile

WIDE, LEAST = "Around it. " * 1_000, "It is about P1."
EARLIER = (("And before?", "Nothing."),)


def conversation(turns: int) -> list[Event]:
    events: list[Event] = []
    for number in range(turns):
        answer = AssistantMessage(text=f"answer {number} " + "y" * 4_000)
        events += (TurnStarted(cause="message"), UserMessage(text="go"), answer, TurnEnded(stopped="answer"))
    return [event.model_copy(update={"id": number}) for number, event in enumerate(events, 1)]


@pytest.mark.parametrize(
    ("window", "tight", "around", "earlier", "oldest"),
    [
        (30_000, False, True, True, True),
        (14_000, False, False, True, True),
        (8_000, False, True, True, False),
        (100, False, False, False, False),
        (30_000, True, False, False, False),
    ],
)
def test_what_is_around_goes_first_and_history_before_what_was_said_aside(
    window: int, tight: bool, around: bool, earlier: bool, oldest: bool
) -> None:
    facts = PayloadInputs("prompt", [])
    request = SideRequest(
        conversation(10), facts, KeptProjection().project, TokenMeter(), (WIDE, LEAST), "why?", EARLIER
    )
    sent = str(request.payload(Profile(context_window=window), tight=tight).messages)
    assert "why?" in sent
    assert (WIDE.strip() in sent, "And before?" in sent, "answer 0" in sent) == (around, earlier, oldest)
