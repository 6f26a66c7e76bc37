"""A payload is made once for a profile, and goes out as it was made."""

from app.agent.request_payload import PreparedRequest
from app.llm.values.profile import Profile
from app.llm.values.types import Payload
from app.llm.wires.wire_registry import SentRequest


def test_it_is_made_once_for_each_profile() -> None:
    profiles: list[Profile] = []
    sent: list[SentRequest] = []

    def make(profile: Profile) -> Payload:
        profiles.append(profile)
        return Payload([{"role": "user", "content": profile.name}], [])

    request = PreparedRequest(make, "m", sent.append)
    made = request.payload(Profile())
    assert profiles and not sent
    assert request.build(Profile()) is made and request.build(Profile()) is made
    assert len(profiles) == 1 and [one.payload for one in sent] == [made, made]
    assert request.build(Profile(name="vllm")) is not made
    assert sent[-1].profile.name == "vllm" and len(profiles) == 2
