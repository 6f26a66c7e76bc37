"""What agents send to their hook: payloads as Claude Code 2.1.330, Codex 0.169.0 and Gemini CLI 0.61.0 wrote them.

Paths, ids and texts are put in; all else is as it was recorded. Transcripts are as far as the hook looks at them.
"""

import json
from pathlib import Path
from typing import Any

AGENTS = ("claude", "codex", "gemini")


class Agent:
    """One session of an agent, which asks before each call."""

    def __init__(self, name: str, workspace: Path, session: str = "5f0c77aa-d61e-467f-90ce-bea344d0703b") -> None:
        self.name = name
        self.session = session
        self.prompt = "prompt-first"
        self._workspace = workspace
        self._transcript = workspace.parent / f"{name}-{session}.jsonl"
        self._lines: list[dict[str, Any]] = []
        self._number = 0
        self._response = ""
        self._said("change it")

    def starts(self, source: str = "startup") -> dict[str, Any]:
        """The session starts; what goes to the hook then."""
        payload = self._payload("SessionStart")
        for name in ("prompt_id", "turn_id", "effort"):
            payload.pop(name, None)
        if self.name == "claude":
            payload.pop("permission_mode")
        return payload | {"source": source}

    def returns(self, payload: dict[str, Any], result: object) -> dict[str, Any]:
        """What goes to the hook after a call that was made."""
        event = {"hook_event_name": "AfterTool" if self.name == "gemini" else "PostToolUse", "tool_response": result}
        return payload | event | ({"duration_ms": 27} if self.name == "claude" else {})

    def attaches(self, kind: str, path: str) -> None:
        """Claude Code shows its model a file by itself."""
        shown = {"type": kind, "filename": str(self._workspace / path), "content": {"type": "text"}}
        self._line({"type": "attachment", "isSidechain": False, "attachment": shown})

    def asks(self, words: str) -> dict[str, Any]:
        """The user writes; what goes to the hook before the prompt."""
        self.prompt = f"prompt-{self._number}"
        if self.name != "gemini":
            self._said(words)
        event = "BeforeAgent" if self.name == "gemini" else "UserPromptSubmit"
        payload = self._payload(event) | {"prompt": words}
        if self.name == "gemini":
            self._said(words)
        return payload

    def responds(self, *calls: tuple[str, dict[str, Any]]) -> list[dict[str, Any]]:
        """One response of the model with these calls; what goes to the hook before each of them."""
        self._response = f"msg_{self._number}"
        ids = []
        for name, arguments in calls:
            self._number += 1
            ids.append(f"call_{self._number}")
            self._called(ids[-1], name, arguments)
        if self.name == "gemini":
            self._line({"id": self._response, "type": "gemini", "content": "", "model": "gemini-2.5-pro"})
        event = "BeforeTool" if self.name == "gemini" else "PreToolUse"
        return [
            self._payload(event, call) | {"tool_name": name, "tool_input": arguments}
            for call, (name, arguments) in zip(ids, calls, strict=True)
        ]

    def ends_turn(self, words: str) -> dict[str, Any]:
        """What goes to the hook after a turn whose last message is `words`."""
        if self.name == "gemini":
            own: dict[str, Any] = {"prompt": "change it", "prompt_response": words}
            return self._payload("AfterAgent") | own | {"stop_hook_active": False}
        return self._payload("Stop") | {"stop_hook_active": False, "last_assistant_message": words}

    def hears(self, payload: dict[str, Any], result: str) -> None:
        """The result of a call goes into the transcript."""
        call = payload.get("tool_use_id", "")
        match self.name:
            case "claude":
                block = {"type": "tool_result", "tool_use_id": call, "content": result}
                self._line({"type": "user", "message": {"role": "user", "content": [block]}})
            case "codex":
                item = {"type": "custom_tool_call_output", "call_id": call, "output": result}
                self._line({"type": "response_item", "payload": item})
            case _:
                answer = {"functionResponse": {"id": call, "response": {"error": result}}}
                self._line({"id": f"answer_{call}", "type": "user", "content": [answer]})

    def writes(self, path: str, text: str) -> tuple[str, dict[str, Any]]:
        if self.name == "codex":
            added = "".join(f"+{line}\n" for line in text.splitlines())
            return "apply_patch", {"command": f"*** Begin Patch\n*** Add File: {path}\n{added}*** End Patch\n"}
        tool = "Write" if self.name == "claude" else "write_file"
        return tool, {"file_path": str(self._workspace / path), "content": text}

    def edits(self, path: str, old: str, new: str) -> tuple[str, dict[str, Any]]:
        if self.name == "codex":
            hunk = f"*** Update File: {path}\n@@\n-{old}\n+{new}\n"
            return "apply_patch", {"command": f"*** Begin Patch\n{hunk}*** End Patch\n"}
        tool = "Edit" if self.name == "claude" else "replace"
        return tool, {"file_path": str(self._workspace / path), "old_string": old, "new_string": new}

    def reads(self, path: str) -> tuple[str, dict[str, Any]]:
        """A call that changes nothing."""
        match self.name:
            case "claude":
                return "Read", {"file_path": str(self._workspace / path)}
            case "codex":
                return "Bash", {"command": f"cat {path}"}
            case _:
                return "read_file", {"file_path": str(self._workspace / path)}

    def searches(self, name: str) -> tuple[str, dict[str, Any]]:
        return "Grep" if self.name == "claude" else "grep_search", {"pattern": name}

    def found(self, *lines: tuple[str, int, str]) -> object:
        """What a search returns that has found lines: path, number and text."""
        if self.name == "claude":
            names = list(dict.fromkeys(path for path, _, _ in lines))
            return {"mode": "files_with_matches", "filenames": names, "numFiles": len(names)}
        matches = [
            {"filePath": path, "absolutePath": str(self._workspace / path), "lineNumber": number, "line": text}
            for path, number, text in lines
        ]
        said = "".join(f"File: {path}\nL{number}: {text}\n---\n" for path, number, text in lines)
        head = f'Found {len(lines)} matches for pattern "x" in path ".":\n---\n'
        return {"llmContent": head + said, "returnDisplay": {"summary": "Found", "matches": matches}}

    def _payload(self, event: str, call: str = "") -> dict[str, Any]:
        common = {
            "session_id": self.session,
            "transcript_path": str(self._transcript),
            "cwd": str(self._workspace),
            "hook_event_name": event,
        }
        match self.name:
            case "claude":
                own = {"prompt_id": self.prompt, "permission_mode": "default", "effort": {"level": "medium"}}
            case "codex":
                own = {"turn_id": self.prompt, "model": "gpt-5.5", "permission_mode": "bypassPermissions"}
            case _:
                return common | {"timestamp": "2026-11-22T04:20:54.477Z"}
        return common | own | ({"tool_use_id": call} if call else {})

    def _said(self, words: str) -> None:
        match self.name:
            case "claude":
                self._line({"type": "user", "promptId": self.prompt, "message": {"role": "user", "content": words}})
            case "codex":
                self._line({"type": "response_item", "payload": {"type": "message", "role": "user"}})
            case _:
                self._line({"id": self.prompt, "type": "user", "content": [{"text": words}]})

    def _called(self, call: str, name: str, arguments: dict[str, Any]) -> None:
        if self.name == "claude":
            block = {"type": "tool_use", "id": call, "name": name, "input": arguments}
            message = {"id": self._response, "role": "assistant", "model": "claude-opus-5-5", "content": [block]}
            self._line({"type": "assistant", "message": message, "version": "2.1.330"})
        elif self.name == "codex":
            item = {"type": "custom_tool_call", "call_id": call, "name": name, "input": ""}
            self._line({"type": "response_item", "payload": item})

    def _line(self, line: dict[str, Any]) -> None:
        self._lines.append(line)
        self._transcript.write_text("".join(f"{json.dumps(each)}\n" for each in self._lines))


class Caller:
    """Who has started the hook, where it is called in this process."""

    def __init__(self, began: float = 0.0) -> None:
        self.began = began
        self.answers: list[bytes] = []

    def allow_on_failure(self) -> None:
        """That is up to who waits."""

    def answer(self, text: bytes, *, denied: bool = False) -> None:
        self.answers.append(text)


def reason(agent: Agent, out: str) -> str:
    """The words of a denial, which it must be."""
    answer = json.loads(out)
    if agent.name == "gemini":
        assert answer["decision"] == "deny", answer
        return str(answer["reason"])
    specific = answer["hookSpecificOutput"]
    assert specific["hookEventName"] == "PreToolUse" and specific["permissionDecision"] == "deny", answer
    return str(specific["permissionDecisionReason"])


def stops(out: str) -> bool:
    return json.loads(out).get("continue") is False


def context(out: str) -> str:
    """What an answer gives the agent with the prompt."""
    return str(json.loads(out)["hookSpecificOutput"]["additionalContext"]) if out else ""
