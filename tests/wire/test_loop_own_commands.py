"""Commands of the user's own, skills and the to-do list over the wire: in the prompt, by a call, or not at all."""

import json
from pathlib import Path

from app.conversation.events import CallOutcome, CustomCommandInvocation, HistoryCompacted, ToolResult, UserMessage
from tests.wire.bench import Bench, bench, edit, of_role
from tests.wire.endpoints import IGNORES_TOOL_CHOICE
from tests.wire.replies import STALL, Call, Turn, chunk, stream
from tests.wire.server import Request, WireServer

REVIEW = CustomCommandInvocation(typed="/review greet.py", model="bigger", effort="high")


async def test_model_and_effort_of_a_command_apply_to_one_turn(on: Bench, server: WireServer) -> None:
    server.call("read_file", {"path": "greet.py"})
    server.say("Fine.")
    server.say("Hello.")
    await on.settled(on.session.send("Look at @greet.py with care.", REVIEW))
    await on.say("Thanks")
    sent = [(one.body["model"], one.body.get("reasoning_effort")) for one in server.requests]
    assert sent == [("bigger", "high"), ("bigger", "high"), ("test-model", None)]
    assert of_role(server.requests[0], "user") == ["Look at @greet.py with care."]
    assert on.runtime.sessions.sent_messages() == ["/review greet.py", "Thanks"]
    assert on.runtime.sessions.get(on.session.id).title == "/review greet.py"


async def test_a_queued_command_is_returned_as_typed(tmp_path: Path, server: WireServer) -> None:
    server.script([stream(chunk(text="Well"), STALL)])
    async with bench(server, tmp_path) as table:
        await table.session.send("hello")
        assert await server.arrived(1)
        await table.session.send("With care.", REVIEW)
        assert table.session.queue == ("/review greet.py",)
        assert table.session.interrupt() == ("/review greet.py",)
        await table.session.wait_until_idle()
        server.script([stream(chunk(text="Well"), STALL), Turn("Fine.")])
        await table.session.send("hello again")
        assert await server.arrived(2)
        await table.session.send("With care.", REVIEW)
        await table.session.close()
    async with bench(server, tmp_path) as table:
        await table.settled(table.session.resume())
        assert server.requests[-1].body["model"] == "bigger"
        said = [event for event in table.events if isinstance(event, UserMessage)]
        assert said[-1].command == REVIEW and of_role(server.requests[-1], "user")[-1].endswith("With care.")


LIST = [
    {"content": "Read client.py", "status": "completed"},
    {"content": "Bound the loop", "status": "in_progress"},
    {"content": "Say so in the changelog", "status": "pending"},
]


def results(on: Bench) -> list[ToolResult]:
    return [event for event in on.events if isinstance(event, ToolResult)]


async def test_a_to_do_list_is_stored_without_permission(server: WireServer, on: Bench) -> None:
    for written in (LIST, json.dumps(LIST)):
        await on.say("mend it", ("write_todos", {"todos": written}))
        result = results(on)[-1]
        assert result.todos is not None and [todo.model_dump() for todo in result.todos] == LIST
        assert server.last.messages[-1]["content"] == "Kept: 1 of 3 done."
    await on.say("never mind", ("write_todos", {"todos": []}))
    assert server.last.messages[-1]["content"] == "The list is empty."
    assert results(on)[-1].todos == ()


async def test_a_compaction_keeps_the_to_do_list_as_system_text(server: WireServer, on: Bench) -> None:
    await on.say("mend it", ("write_todos", {"todos": LIST[:1]}), ("write_todos", {"todos": LIST}))
    for number in range(12):
        await on.say(f"Question {number}?", last=f"Answer {number}. " + "Words. " * 400)
    server.model(lambda request: Turn("SUMMARY"))
    await on.settled(on.session.compact())
    assert any(isinstance(event, HistoryCompacted) for event in on.events)
    await on.say("go on")
    told = [message for message in server.last.messages if "Bound the loop" in str(message)]
    assert [message["role"] for message in told] == ["system"]
    assert "- in_progress: Bound the loop\n- pending: Say so" in told[0]["content"]


async def test_with_a_closed_gate_no_to_do_list_is_accepted(server: WireServer, on: Bench) -> None:
    server.behave(IGNORES_TOOL_CHOICE)
    listed = Call("write_todos", {"todos": LIST})
    server.model(lambda request: Turn(calls=(listed if request.closing else Call(*edit()),)))
    await on.say("mend it")
    assert [(result.outcome, result.todos) for result in results(on)] == [
        (CallOutcome.STAGED, None),
        (CallOutcome.REFUSED, None),
    ]


def tools_of(request: Request) -> list[str]:
    return [tool["function"]["name"] for tool in request.body["tools"]]


async def test_read_skill_reads_only_the_folder_of_a_skill(tmp_path: Path, server: WireServer) -> None:
    folder = tmp_path / "home/config/skills/release"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text("---\ndescription: How we release.\n---\nTag it, then run scripts/tag.sh.\n")
    (folder / "tag.sh").write_text("git tag")
    (folder / ".env").write_text("TOKEN=abc")
    for file in (None, "tag.sh", "../../config.toml", ".env"):
        server.call("read_skill", {"name": "release", **({"file": file} if file else {})})
    server.call("read_skill", {"name": "none"})
    server.say("Done.")
    async with bench(server, tmp_path) as table:
        await table.say("Release it")
        assert "- release: How we release." in of_role(server.requests[0], "system")[0]
        read, file, out, secret, none = of_role(server.requests[-1], "tool")
        assert "Tag it, then run scripts/tag.sh." in read and "tag.sh" in read.splitlines()[1]
        assert str(folder) in read.splitlines()[0]
        assert "git tag" in file
        assert "not in the folder" in out and "secret" in secret and "The skills are: release" in none
        prompts = {of_role(request, "system")[0] for request in server.requests}
        assert len(prompts) == 1, "the beginning of each request is the same"
        table.check()


async def test_without_skills_prompt_and_tools_do_not_mention_them(on: Bench, server: WireServer) -> None:
    await on.say("Hi", last="Hello.")
    assert "skill" not in of_role(server.requests[0], "system")[0].lower()
    assert "read_skill" not in tools_of(server.requests[0])


async def test_skills_of_the_workspace_need_no_trust(tmp_path: Path, server: WireServer) -> None:
    folder = tmp_path / "workspace/.agents/skills/style"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text("---\ndescription: How we write.\n---\nBriefly.\n")
    server.call("read_skill", {"name": "style"})
    server.say("Done.")
    async with bench(server, tmp_path) as table:
        await table.say("Write")
        (read,) = of_role(server.requests[-1], "tool")
        assert "Briefly." in read and ".agents/skills/style" in read
