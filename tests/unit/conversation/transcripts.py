"""Transcripts as other programs write them, in short."""

import json
from pathlib import Path
from typing import Any

PROGRAM = "⟪program⟫"
"""In every text that the other program wrote in the user's role."""


def lines(path: Path, *documents: Any) -> Path:
    """A file with a document in each line."""
    path.write_text("".join(f"{json.dumps(document)}\n" for document in documents))
    return path


def claude(path: Path) -> Path:
    """A session of Claude Code with all that its lines can be."""
    said: list[dict[str, Any]] = []

    def add(kind: str, content: Any, parent: str | None = "", **more: Any) -> str:
        name = f"u{len(said)}"
        parent = said[-1]["uuid"] if parent == "" and said else parent or None
        message = {"role": kind, "content": content} | ({"id": more.pop("id")} if "id" in more else {})
        line = {"type": kind, "message": message, "uuid": name, "parentUuid": parent, "sessionId": "s", **more}
        said.append(line)
        return name

    add("user", f"<local-command-caveat>{PROGRAM}</local-command-caveat>", isMeta=True)
    add("user", f"<system-reminder>{PROGRAM}</system-reminder>\nFix the tide tables")
    add("assistant", [{"type": "thinking", "thinking": "hm", "signature": "x"}], id="m1")
    text = add("assistant", [{"type": "text", "text": "I look."}], id="m1")
    one = add("assistant", [{"type": "tool_use", "id": "t1", "name": "Read", "input": {"p": 1}}], text, id="m1")
    two = add("assistant", [{"type": "tool_use", "id": "t2", "name": "Grep", "input": {"q": 2}}], one, id="m1")
    add("user", [{"type": "tool_result", "tool_use_id": "t1", "content": "one"}], one, toolUseResult={"big": 1})
    add("user", [{"type": "tool_result", "tool_use_id": "t2", "content": [{"type": "text", "text": "two"}]}], two)
    answered = add("assistant", [{"type": "text", "text": "Two places."}], id="m2")
    add("user", "This way? No, I went back", answered)
    add("assistant", [{"type": "text", "text": "Gone"}], id="m3")
    add("user", "Take the second", answered)
    add("assistant", [{"type": "text", "text": f"{PROGRAM} side"}], isSidechain=True, id="m4")
    add("assistant", [{"type": "tool_use", "id": "t9", "name": "Bash", "input": {}}], said[-2]["uuid"], id="m5")
    add("user", [{"type": "text", "text": f"[Request interrupted by user for tool use] {PROGRAM}"}])
    add(
        "user",
        "<command-message>review</command-message><command-name>/review</command-name>"
        "<command-args>the tests</command-args>",
    )
    add("user", f"{PROGRAM} expanded", isMeta=True)
    add("user", f"This session continues. {PROGRAM}", isCompactSummary=True)
    add("user", "And the docs")
    sent = {"role": "user", "content": [{"type": "text", "text": "And the docs"}]}
    said.append({"type": "api-request-blob", "message": sent, "uuid": "blob"})
    return lines(path, {"type": "summary", "summary": PROGRAM}, *said, {"type": "file-history-snapshot"})


CLAUDE_SAID = ["Fix the tide tables", "Take the second", "/review the tests\n\nAnd the docs"]


def codex(path: Path) -> Path:

    def item(**payload: Any) -> dict[str, Any]:
        return {"timestamp": "t", "type": "response_item", "payload": payload}

    def said(role: str, text: str) -> dict[str, Any]:
        kind = "output_text" if role == "assistant" else "input_text"
        return item(type="message", role=role, content=[{"type": kind, "text": text}])

    def event(**payload: Any) -> dict[str, Any]:
        return {"type": "event_msg", "payload": payload}

    return lines(
        path,
        {"type": "session_meta", "payload": {"id": "x", "instructions": PROGRAM}},
        said("developer", PROGRAM),
        said("user", f"# AGENTS.md instructions for /w\n\n{PROGRAM}"),
        said("user", f"<environment_context>{PROGRAM}</environment_context>"),
        event(type="user_message", message="Fix the tide tables"),
        said("user", "Fix the tide tables"),
        item(type="reasoning", summary=[], encrypted_content="x"),
        said("assistant", "I look."),
        item(type="function_call", name="shell", call_id="c1", arguments='{"command": ["ls"]}'),
        item(type="function_call_output", call_id="c1", output='{"output": "one", "metadata": {"exit_code": 0}}'),
        item(type="custom_tool_call", name="apply_patch", call_id="c2", input="*** Begin Patch"),
        item(type="custom_tool_call_output", call_id="c2", output="two"),
        said("assistant", "Done."),
        event(type="user_message", message="No, back"),
        said("user", "No, back"),
        said("assistant", "Gone"),
        event(type="thread_rolled_back", num_turns=1),
        said("user", f"<new_kind_of_context>{PROGRAM}</new_kind_of_context>"),
        event(type="item_completed", item={"type": "UserMessage", "content": [{"text": "<b> in the title"}]}),
        said("user", "<b> in the title"),
        {"type": "compacted", "payload": {"message": PROGRAM}},
        item(type="function_call", name="shell", call_id="c3", arguments="{"),
    )


CODEX_SAID = ["Fix the tide tables", "<b> in the title"]


def openai(path: Path) -> Path:
    call = {"id": "c1", "type": "function", "function": {"name": "look up!", "arguments": '{"a": 1}'}}
    messages = [
        {"role": "system", "content": PROGRAM},
        {"role": "user", "content": "Fix the tide tables"},
        {"role": "assistant", "content": None, "tool_calls": [call], "annotations": [1]},
        {"role": "tool", "tool_call_id": "c1", "content": "one"},
        {"role": "tool", "tool_call_id": "zz", "content": "orphan"},
        {"role": "assistant", "content": "Done."},
        {"role": "user", "content": [{"type": "text", "text": "Thanks"}]},
    ]
    path.write_text(json.dumps({"model": "x", "messages": messages}, indent=2))
    return path


OPENAI_SAID = ["Fix the tide tables", "Thanks"]


def anthropic(path: Path) -> Path:
    use = {"type": "tool_use", "id": "t1", "name": "look", "input": {}}
    result = {"type": "tool_result", "tool_use_id": "t1", "content": "one"}
    messages = [
        {"role": "user", "content": "Fix the tide tables"},
        {"role": "assistant", "content": [{"type": "text", "text": "I look."}, use]},
        {"role": "user", "content": [result, {"type": "text", "text": "Thanks"}]},
    ]
    path.write_text(json.dumps(messages))
    return path
