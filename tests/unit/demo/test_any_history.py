"""Whatever valid history a client sends, the model answers it, and calls nothing where it must not."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from app.agent.interventions import stop_after_staging_instruction
from app.conversation.events import DecisionKind, ProposalDecided
from app.conversation.payload.compaction_plan import INSTRUCTION
from app.conversation.proposal_reports import format_decision_facts
from app.demo.demo_conversation import MODEL_ID
from app.demo.demo_model import reply_to_request
from app.demo.demo_server import DemoChatCompletion
from app.llm.wires.wire import SystemItem
from tests.unit.tools.memory_draft import nowhere
from tests.wire import strict

TOOLS = nowhere()
SENTENCES = (
    "Fix the failing tests|explain x.py|improve it|help|bring in two agents|what were they told?||continue|"
    "where is it?|thanks|only x.py|Give it a name|add a comment|summarise the conversation so far"
)
WORDS = st.sampled_from([*SENTENCES.split("|"), "| `` ``` \x00 é"]) | st.text(max_size=40)
NOTES = st.sampled_from(
    [
        stop_after_staging_instruction(["P1"], ["x.py"]).text,
        INSTRUCTION,
        *(
            SystemItem(
                format_decision_facts(ProposalDecided(proposal="P1", decision=decision)), introduces=spoken
            ).full_text()
            for decision in DecisionKind
            for spoken in (False, True)
        ),
    ]
)
RESULTS = st.sampled_from(
    [
        '{"status": "staged", "proposal": "P1", "applied": false}',
        "x.py (version abc, 2 lines)\n1\tLUNAR_DAY = timedelta(hours=24)\n2\tdef a(:",
        "y.py (version abc, 2 lines)\n1\tstep = timedelta(hours=12)\n2\ta = b",
        "x.py\ny.py  [staged, not on disk yet]\nsrc/ (12)",
        "Aborted by the user before it ran; nothing was done.",
        "[exit code 1; 0.1 s]\nFAILED",
        "",
    ]
) | st.text(max_size=60)
ARGUMENTS: st.SearchStrategy[dict[str, object]] = st.dictionaries(
    st.sampled_from(["path", "pattern", "start_line", "edits", "content", "new_path", "summary", "question"]),
    st.sampled_from(["x.py", "y.py", "a", "SUMMARY_OF_CHANGES.md"])
    | st.integers(0, 5)
    | st.none()
    | st.builds(list[object]),
    max_size=3,
)


@st.composite
def step(draw: st.DrawFn) -> list[dict[str, Any]]:
    """A response with calls and their results in any order, or one without."""
    names = draw(st.lists(st.sampled_from([*(tool.name for tool in TOOLS), "unknown_tool"]), max_size=3))
    text = draw(WORDS)
    if not names:
        return [{"role": "assistant", "content": text}] if text.strip() else []
    calls = [
        {
            "id": f"call_{number}",
            "type": "function",
            "function": {"name": name, "arguments": json.dumps(draw(ARGUMENTS))},
        }
        for number, name in enumerate(names)
    ]
    results = [{"role": "tool", "tool_call_id": call["id"], "content": draw(RESULTS)} for call in calls]
    return [{"role": "assistant", "content": text, "tool_calls": calls}, *draw(st.permutations(results))]


MESSAGES = st.lists(
    step()
    | WORDS.map(lambda text: [{"role": "user", "content": text}])
    | NOTES.map(lambda text: [{"role": "system", "content": text}]),
    min_size=1,
    max_size=8,
).map(lambda parts: [message for part in parts for message in part])


@given(messages=MESSAGES.filter(bool), tool_choice=st.sampled_from([None, "none"]))
def test_every_valid_history_is_answered(messages: list[dict[str, Any]], tool_choice: str | None) -> None:
    body: dict[str, Any] = {"model": MODEL_ID, "messages": messages, "tools": TOOLS.schemas}
    if tool_choice:
        body["tool_choice"] = tool_choice
    reply = reply_to_request(body)
    assert strict.openai_adjacency(body) is None
    assert reply.text.strip() or reply.calls
    for call in reply.calls:
        TOOLS.parse_arguments(call.name, call.arguments)
    if tool_choice == "none":
        assert not reply.calls
    message = DemoChatCompletion(body, reply).to_json()["choices"][0]["message"]
    results = [
        {"role": "tool", "tool_call_id": call["id"], "content": "done"} for call in message.get("tool_calls", ())
    ]
    following = [*messages, {key: value for key, value in message.items() if value is not None}, *results]
    assert strict.openai_adjacency({"model": MODEL_ID, "messages": following}) is None
