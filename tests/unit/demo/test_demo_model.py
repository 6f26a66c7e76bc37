"""The demo model's skills: what it says and calls, told by what it read."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from app.agent.interventions import repeated_denials_note
from app.agent.side_questions import SideQuestionSubject, make_question_contexts
from app.conversation.events import SideQuestion
from app.conversation.payload.compaction_plan import INSTRUCTION
from app.conversation.payload.history import INTERRUPTED
from app.conversation.payload.projection import BRIDGE
from app.conversation.payload.tool_calls import ABORTED_BEFORE
from app.demo.demo_conversation import DemoCallWithResult, DemoKnownFiles, DemoReply, read_intent
from app.demo.demo_model import reply_to_request
from app.proposals.values.models import FileChange, FileDiff, FileOperation, FileVersion, Hunk, Proposal
from tests.unit.demo.player import TOOLS, Player
from tests.unit.demo.test_sample import run_tests

FIX = "Fix the failing tests"


def read_by(player: Player) -> list[list[str]]:
    """The files that were read, step by step."""
    steps = ([call["function"] for call in message.get("tool_calls", ())] for message in player.messages)
    read = ([json.loads(call["arguments"]) for call in calls if call["name"] == "read_file"] for calls in steps)
    return [[arguments["path"] for arguments in calls] for calls in read if calls]


async def test_the_demo_explains_files_and_project_from_their_content(player: Player) -> None:
    (player.folder / "tideline" / "buoy.py").write_text(
        '"""Where the buoys lie."""\n\nDEPTH = 12\n\n\n'
        'def drift(hours):\n    """How far a buoy drifts."""\n    return hours * 2\n'
    )
    answer = await player.say("Explain tideline/buoy.py")
    assert not answer.calls
    facts = ("8 lines", "Where the buoys lie.", "`drift(hours)`", "How far a buoy drifts.", "DEPTH = 12", "```python")
    for fact in facts:
        assert fact in answer.text
    answer = await player.say("What does the moon module do?")
    assert "`tideline/moon.py`" in answer.text
    assert "is_spring_tide" in answer.text
    answer = await player.say("Give me an overview of this project")
    assert "The day's tides for a handful of small harbours" in answer.text
    assert "| `tideline/harbours.py` | 29 |" in answer.text
    answer = await player.say("Explain tideline/whale.py")
    assert not answer.calls
    assert "class" not in answer.text or "tideline/whale.py" not in answer.text
    (player.folder / "tideline" / "buoy.py").write_text(
        "class SmallBuoy:\n    def drift(self):\n        return 1\n\n\ndef to_feet(metres):\n    return metres * 3\n"
    )
    answer = await player.say("Explain tideline/buoy.py")
    assert "| `class SmallBuoy` | 1 | — |" in answer.text
    (player.folder / "tideline" / "half.py").write_text("def half(:\n")
    answer = await player.say("Explain tideline/half.py")
    assert "This is no valid Python." in answer.text
    (player.folder.parent / "empty").mkdir()
    answer = await Player(player.folder.parent / "empty").say("Give me an overview of this project")
    assert "I could not read anything." in answer.text and not answer.calls


async def test_the_demo_fix_reads_tests_then_code_changes_two_files_and_leaves_no_bug(player: Player) -> None:
    for name in "abc":
        (player.folder / f"{name}.py").write_text("")
    step = await player.say(FIX)
    assert read_by(player) == [
        ["tests/test_moon.py", "tests/test_table.py", "tests/test_tides.py"],
        ["tideline/harbours.py", "tideline/moon.py", "tideline/table.py", "tideline/tides.py"],
    ]
    assert step.names == ["edit_file", "edit_file"]
    assert step.edited == ["tideline/moon.py", "tideline/tides.py"]
    assert "FAILED" in run_tests(player.folder).stderr
    player.approve()
    assert "OK" in run_tests(player.folder).stderr
    answer = await player.say("Fix the bug")
    assert not answer.calls
    assert "nothing that I can mend" in answer.text


async def test_demo_reads_some_of_many_files_and_says_so(player: Player) -> None:
    for number in range(20):
        (player.folder / f"test_{number}.py").write_text(f"from module_{number} import nothing\n")
        (player.folder / f"module_{number}.py").write_text("")
    answer = await player.say(FIX)
    assert [len(paths) for paths in read_by(player)] == [6, 6]
    assert "nothing that I can mend" in answer.text


async def test_the_demo_finds_the_bug_by_its_text_and_adds_its_import_once(tmp_path: Path) -> None:
    sea = tmp_path / "other/src/sea"
    sea.mkdir(parents=True)
    (sea / "sky.py").write_text("from datetime import timedelta\n\nLUNAR_DAY = timedelta(hours=24)\n")
    for before in ("", "from sea.sky import LUNAR_DAY\n", "from datetime import timedelta\n\n"):
        (sea / "water.py").write_text(f"{before}STEP = timedelta(hours=12)\n")
        player = Player(tmp_path / "other")
        step = await player.say(FIX)
        assert step.edited == ["src/sea/sky.py", "src/sea/water.py"]
        text = player.staged["src/sea/water.py"] or ""
        assert text.count("from sea.sky import LUNAR_DAY\n") == 1 and text.endswith("STEP = LUNAR_DAY / 2\n")
        assert "datetime" in before or text == "from sea.sky import LUNAR_DAY\nSTEP = LUNAR_DAY / 2\n"


FEEDBACK = {
    "Give the number a name": "TIDAL_PERIOD",
    "Call it HALF_LUNAR_DAY please": "HALF_LUNAR_DAY = LUNAR_DAY / 2",
    "Please add a comment that says why": "# ",
    "The constant needs a docstring": '"""',
    "Add a test as well": "test_a_week_on",
    "No, smaller. Don't import anything": "minutes=25",
    "I don't like it": "",
}


@pytest.mark.parametrize("feedback", FEEDBACK)
async def test_a_denial_makes_the_demo_propose_what_the_feedback_says(player: Player, feedback: str) -> None:
    await player.say(FIX)
    first = dict(player.staged)
    second = await player.request_changes(feedback)
    assert set(second.names) == {"edit_file"}
    assert player.staged != first
    assert f"> {feedback}" in second.text
    added = set("\n".join(filter(None, player.staged.values())).splitlines())
    added -= set("\n".join(filter(None, first.values())).splitlines())
    added -= {line for file in player.folder.rglob("*.py") for line in file.read_text().splitlines()}
    assert any(FEEDBACK[feedback] in line for line in added)
    player.approve()
    assert "OK" in run_tests(player.folder).stderr


async def test_the_demo_quotes_feedback_and_respects_a_named_file(player: Player) -> None:
    await player.say(FIX)
    second = await player.request_changes("Not yet.\n\nGive the number a name,\nand add a comment.")
    assert "> Not yet.\n>\n> Give the number a name,\n> and add a comment." in second.text
    text = player.staged["tideline/moon.py"] or ""
    assert "TIDAL_PERIOD" in text and "# The moon" in text
    second = await player.request_changes("Only touch tides.py")
    assert second.edited == ["tideline/tides.py"]
    assert "24 h 50 min" not in second.text, "it doesn't say again what is wrong"


async def test_no_two_proposals_of_a_row_of_denials_are_the_same(player: Player) -> None:
    await player.say(FIX)
    seen = [dict(player.staged)]
    for _ in range(5):
        step = await player.request_changes("no")
        if "ask_user" in step.names:
            break
        assert player.staged not in seen
        seen.append(dict(player.staged))
    assert len(seen) > 3


async def test_after_repeated_denials_the_demo_asks_the_user(player: Player) -> None:
    await player.say(FIX)
    player.deny()
    advice = repeated_denials_note(3)
    assert advice is not None
    player.messages += [{"role": "system", "content": advice.text}, {"role": "user", "content": "still wrong"}]
    step = await player.go_on()
    assert step.names == ["ask_user"]
    player.answer(step, "Give the number a name")
    step = await player.go_on()
    assert set(step.names) == {"edit_file"}
    assert "TIDAL_PERIOD" in (player.staged["tideline/moon.py"] or "")


async def test_a_new_request_after_a_plain_denial_is_not_taken_for_feedback(player: Player) -> None:
    await player.say(FIX)
    await player.close_gate()
    player.deny()
    answer = await player.say("Explain tideline/units.py")
    assert not answer.calls
    assert "`tideline/units.py`" in answer.text
    answer = await player.say("Summarise the conversation so far")
    assert "- Explain tideline/units.py" in answer.text
    assert "- `tideline/units.py`" in answer.text.partition("## Files read\n\n")[2]


@pytest.mark.parametrize("beyond", [False, True], ids=["an option", "another answer"])
async def test_the_demo_answers_a_vague_request_with_a_question(player: Player, beyond: bool) -> None:
    question = await player.say("Improve it")
    assert question.names == ["ask_user"]
    assert len(question.arguments()["options"]) == 2
    player.answer(question, "Improve all of it" if beyond else question.arguments()["options"][0])
    step = await player.go_on()
    if beyond:
        assert not step.calls and "I take that as: Improve all of it" in step.text
    else:
        assert step.edited == ["tideline/moon.py", "tideline/tides.py"]


async def test_help_shows_a_table_and_code_and_agents_come_with_the_sample_only(player: Player) -> None:
    answer = await player.say("What can you do?")
    assert "| --- |" in answer.text
    assert "```" in answer.text
    assert answer.finish_reason == "stop"
    assert (await player.say("Where do the gulls live?")).text == answer.text, "a free question"
    player.messages.append({"role": "user", "content": "What can you do?"})
    assert (await player.request(tool_choice="none")).text == answer.text
    assert "signoff --demo" in (await player.say("bring in two agents")).text
    assert "signoff --demo" in (await player.say("what were they told?")).text


async def test_only_tool_choice_none_stops_the_demo(player: Player) -> None:
    await player.say(FIX)
    before = list(player.messages)
    note = {"role": "system", "content": "Staged as P1, awaiting approval. Do not call tools. Hand control back."}
    player.messages.append(note)
    assert (await player.request()).names == ["write_file"]
    player.messages = [*before, note]
    answer = await player.close_gate()
    assert not answer.calls
    assert answer.finish_reason == "stop"
    assert "**P1**" in answer.text
    assert "`tideline/moon.py` and `tideline/tides.py`" in answer.text
    player.messages = before
    seen = []
    for _ in range(4):
        step = await player.request()
        assert step.names == ["write_file"]
        assert step.arguments() not in seen
        seen.append(step.arguments())
        await player.run(step)


async def test_tool_choice_none_is_obeyed_from_the_start_and_needed_tools_are_named(player: Player) -> None:
    for prompt in (FIX, "Explain tideline/moon.py", "Improve it"):
        player.messages[1:] = [{"role": "user", "content": prompt}]
        answer = await player.request(tool_choice="none")
        assert answer.text and not answer.calls
    player.messages[1:] = [{"role": "user", "content": FIX}]
    answer = await player.request(tools=TOOLS.schemas[:1])
    assert not answer.calls
    assert "`list_files`" in answer.text


async def test_a_refused_edit_is_told_and_not_repeated(player: Player) -> None:
    step = await player.say(FIX)
    for call in step.calls:
        message = next(message for message in player.messages if message.get("tool_call_id") == call["id"])
        message["content"] = "Nothing was staged: the text was not found."
    answer = await player.request()
    assert not answer.calls
    assert "Nothing was staged: the text was not found." in answer.text


@pytest.mark.parametrize("in_a_text", [False, True], ids=["in a call", "in a text"])
async def test_demo_continues_after_an_interruption(player: Player, in_a_text: bool) -> None:
    player.messages.append({"role": "user", "content": FIX})
    step = await player.request()
    if in_a_text:
        await player.run(step)
        player.messages.append({"role": "assistant", "content": "The tests say what is expected, so"})
        player.messages.append({"role": "system", "content": INTERRUPTED})
    else:
        player.messages.append({"role": "tool", "tool_call_id": step.calls[0]["id"], "content": ABORTED_BEFORE})
        player.messages.append({"role": "assistant", "content": BRIDGE})
    step = await player.say("go on" if in_a_text else "continue")
    assert step.edited == ["tideline/moon.py", "tideline/tides.py"]


async def test_feedback_is_understood_behind_a_bridge(player: Player) -> None:
    await player.say(FIX)
    player.deny()
    player.messages.append({"role": "assistant", "content": BRIDGE})
    step = await player.say("Give the number a name")
    assert "TIDAL_PERIOD" in (player.staged["tideline/moon.py"] or "")
    assert "> Give the number a name" in step.text


def test_a_file_whose_beginning_was_not_read_is_unknown() -> None:
    page = DemoCallWithResult("c1", "read_file", {"path": "a.py", "start_line": 5}, "5\tfive\n6\tsix")
    assert DemoKnownFiles([page]).texts == {}
    whole = DemoCallWithResult("c2", "read_file", {"path": "a.py"}, "1\tone\n2\ttwo")
    assert DemoKnownFiles([page, whole, page]).texts == {"a.py": "one\ntwo\n"}


async def test_a_program_that_asks_for_a_summary_gets_one(player: Player) -> None:
    await player.say(FIX)
    await player.close_gate()
    await player.request_changes("Give the number a name")
    await player.close_gate()
    player.messages.append({"role": "system", "content": INSTRUCTION})
    answer = await player.request(tool_choice="none")
    for fact in (FIX, "Give the number a name", "`tideline/moon.py`", "The user denied proposal P1"):
        assert fact in answer.text


def test_the_demo_says_that_it_sees_no_images() -> None:
    def replied(words: str) -> DemoReply:
        content = [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}]
        tools = [{"type": "function", "function": {"name": name}} for name in ("list_files", "read_file")]
        said = {"role": "user", "content": [*content, {"type": "text", "text": words}]}
        return reply_to_request({"messages": [said], "tools": tools})

    looked = replied("What is in @shot.png?")
    assert "1 image" in looked.text and "no eyes" in looked.text and not looked.calls
    assert replied("Fix the failing tests as in @shot.png").calls


async def test_the_demo_waits_for_a_pending_proposal_and_closes_an_approved_one(player: Player) -> None:
    await player.say(FIX)
    assert "bring in two agents" not in (await player.close_gate()).text
    answer = await player.say("continue")
    assert not answer.calls
    assert "I have proposed what I had in mind." in answer.text
    player.approve()
    answer = await player.say("continue")
    assert not answer.calls
    assert "**P1** is in" in answer.text
    assert "`tideline/tides.py`" in answer.text


DAY = "LUNAR_DAY = timedelta(hours=24)"
OLD = ("from datetime import timedelta", "", DAY, "", "", "def next_day(time):", "    return time + LUNAR_DAY")
NEW = (*OLD[:2], "LUNAR_DAY = timedelta(hours=24, minutes=50)", *OLD[3:])


def subject(*, whole: bool = False, old: Sequence[str] = OLD, new: Sequence[str] = NEW) -> SideQuestionSubject:
    hunk = Hunk(id="h", number=1, old_start=2, old_count=1, new_start=2, new_count=1)
    version = FileVersion(sha256="0" * 64, size=1)
    change = FileChange(
        path="moon.py", op=FileOperation.EDIT, base=version, result=version, hunks=(hunk,), added=1, removed=1
    )
    proposal = Proposal(id="P1", workspace="/w", created=0.0, summary="Keep the moon's time", files=(change,))
    return SideQuestionSubject(
        proposal, FileDiff(change=change, old=tuple(old), new=tuple(new)), None if whole else hunk
    )


def asked(text: str, **more: Any) -> str:
    question = SideQuestion(uid="q", proposal="P1", path="moon.py", hunk="h", number=1, text=text)
    messages: Sequence[dict[str, Any]] = [
        {"role": "system", "content": "You are signoff."},
        {"role": "user", "content": "Fix it"},
        {"role": "assistant", "content": "P1 is staged."},
        {"role": "system", "content": next(make_question_contexts(subject(**more), question, ()))},
        {"role": "user", "content": text},
    ]
    reply = reply_to_request({"messages": messages, "tools": TOOLS.schemas, "tool_choice": "none"})
    assert not reply.calls
    return reply.text


def test_demo_answers_from_the_hunk_and_its_surroundings() -> None:
    assert "`moon.py`: `return time + LUNAR_DAY`" in asked("what calls this?")
    assert "**Keep the moon's time**" in asked("Why?")
    assert "LUNAR_DAY = timedelta(hours=24, minutes=50)" in asked("explain it")
    assert "know hunks only" in asked("why?", whole=True)
    for line, said in (
        ("LUNAR_DAY = 2", "Nothing that I have read names `LUNAR_DAY`"),
        ("spring = 2", "neither defines anything"),
    ):
        assert said in asked("what calls this?", old=("", "", "neap = 1"), new=("", "", line))


REQUESTS = {
    "fix": ["Fix the failing tests", "make the tests pass", "There is a bug in tides.py", "the times are wrong"],
    "explain": ["Explain tideline/tides.py", "What does moon.py do?", "show me the README", "how do tides work?"],
    "vague": ["Improve it", "refactor tideline/table.py", "make this nicer"],
    "help": ["help", "What can you do?", "hello there"],
    "continue": ["continue", "go on", "Proceed, please"],
    "thanks": ["thanks!", "ok"],
    "summary": ["Summarise the conversation so far"],
    "other": ["Where do the gulls live?", "Give the number a name"],
}


@pytest.mark.parametrize("kind", REQUESTS)
def test_a_request_is_understood(kind: str) -> None:
    assert {text: read_intent(text).kind for text in REQUESTS[kind]} == dict.fromkeys(REQUESTS[kind], kind)
    assert read_intent("Explain LUNAR_DAY in tideline/moon.py.").paths == ("tideline/moon.py",)
