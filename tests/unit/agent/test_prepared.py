"""A payload is made once for a profile, on a thread, and goes out as it was made."""

import threading

from app.agent.prepared import PreparedRequest
from app.llm.capabilities.profile import Profile
from app.llm.types import Payload
from app.llm.wires.registry import SentRequest


async def test_it_is_made_once_and_not_on_the_event_loop() -> None:
    threads: list[int] = []
    sent: list[SentRequest] = []

    def make(profile: Profile) -> Payload:
        threads.append(threading.get_ident())
        return Payload([{"role": "user", "content": profile.name}], [])

    request = PreparedRequest(make, "m", sent.append)
    made = await request.payload(Profile())
    assert threads and threads[0] != threading.get_ident() and not sent
    assert request.build(Profile()) is made and request.build(Profile()) is made
    assert len(threads) == 1 and [one.payload for one in sent] == [made, made]
    assert request.build(Profile(name="vllm")) is not made
    assert sent[-1].profile.name == "vllm" and len(threads) == 2
