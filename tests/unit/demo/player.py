"""Plays signoff's part against the demo server: the openai SDK, a folder, and tools that read it and stage edits."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from openai import AsyncOpenAI

STAGED = "The edits are staged as a proposal ({id}), awaiting approval. Do not call tools. Hand back with a summary."
EDITS = ("edit_file", "write_file", "delete_file", "rename_file")


def schema(name: str, *required: str, **optional: str) -> dict[str, Any]:
    """A tool as it stands in a request; the properties are strings unless said otherwise."""
    properties = {key: {"type": optional.get(key, "string")} for key in (*required, *optional)}
    parameters = {"type": "object", "properties": properties, "required": list(required)}
    return {"type": "function", "function": {"name": name, "description": name, "parameters": parameters}}


TOOLS = [
    schema("read_file", "path", start_line="integer"),
    schema("list_files"),
    schema("search_text", "pattern", ignore_case="boolean"),
    schema("edit_file", "path", "edits", edits="array", summary="string", version="string"),
    schema("write_file", "path", "content"),
    schema("delete_file", "path"),
    schema("rename_file", "path", "new_path"),
    schema("ask_user", "question", options="array"),
    schema("run_command", "command"),
]


@dataclass(frozen=True)
class Response:
    """One streamed response, put together."""

    text: str
    calls: list[dict[str, Any]]
    finish_reason: str

    @property
    def names(self) -> list[str]:
        """The names of the calls."""
        return [call["function"]["name"] for call in self.calls]

    def arguments(self, number: int = 0) -> dict[str, Any]:
        """The arguments of one call."""
        arguments = json.loads(self.calls[number]["function"]["arguments"])
        assert isinstance(arguments, dict)
        return arguments


@dataclass
class Player:
    """A client with a workspace. Edits are applied to `staged` in memory and reach the disk by `approve` alone."""

    client: AsyncOpenAI
    folder: Path
    messages: list[dict[str, Any]] = field(
        default_factory=lambda: [{"role": "system", "content": "You are helpful."}]
    )
    staged: dict[str, str | None] = field(default_factory=dict)
    proposals: int = 0

    async def request(self, **more: Any) -> Response:
        """Send the messages, take the response into them and return it."""
        stream = await self.client.chat.completions.create(
            model="signoff-demo", messages=self.messages, **{"tools": TOOLS, **more}, stream=True
        )
        text, finish_reason = "", ""
        calls: dict[int, dict[str, Any]] = {}
        async for chunk in stream:
            for choice in chunk.choices:
                text += choice.delta.content or ""
                finish_reason = choice.finish_reason or finish_reason
                for piece in choice.delta.tool_calls or ():
                    function = {"name": "", "arguments": ""}
                    call = calls.setdefault(piece.index, {"id": piece.id, "type": "function", "function": function})
                    call["function"]["name"] += piece.function.name or ""
                    call["function"]["arguments"] += piece.function.arguments or ""
        response = Response(text, [calls[index] for index in sorted(calls)], finish_reason)
        message: dict[str, Any] = {"role": "assistant", "content": response.text}
        if response.calls:
            message["tool_calls"] = response.calls
        self.messages.append(message)
        return response

    async def say(self, text: str) -> Response:
        """A user's message, then steps until there is an answer, a question or a staged edit."""
        self.messages.append({"role": "user", "content": text})
        return await self.go_on()

    async def go_on(self) -> Response:
        """Steps until there is an answer, a question or a staged edit."""
        for _ in range(12):
            response = await self.request()
            if not response.calls or "ask_user" in response.names:
                return response
            self.run(response)
            if set(response.names) & set(EDITS):
                return response
        raise AssertionError("the model goes on for ever")

    def run(self, response: Response) -> None:
        """Run the calls and append their results; a step that edits becomes one proposal."""
        editing = set(response.names) & set(EDITS)
        if editing:
            self.proposals += 1
        for number, call in enumerate(response.calls):
            result = self.result(call["function"]["name"], response.arguments(number))
            self.messages.append({"role": "tool", "tool_call_id": call["id"], "content": result})

    async def close_gate(self) -> Response:
        """The closing request: the same tools, none to be called, and the note at the end of this request alone."""
        note = {"role": "system", "content": STAGED.format(id=f"P{self.proposals}")}
        self.messages.append(note)
        try:
            return await self.request(tool_choice="none")
        finally:
            self.messages.remove(note)

    def answer(self, response: Response, text: str) -> None:
        """The user's answer to the question in `response`."""
        self.messages.append({"role": "tool", "tool_call_id": response.calls[0]["id"], "content": text})

    def approve(self) -> None:
        """The user approves what is staged: it is written."""
        for path, text in self.staged.items():
            file = self.folder / path
            if text is None:
                file.unlink()
            else:
                file.parent.mkdir(exist_ok=True)
                file.write_text(text)
        self.staged.clear()
        self.messages.append({"role": "system", "content": f"The user approved proposal P{self.proposals}."})

    async def deny(self, feedback: str = "") -> Response | None:
        """The user denies what is staged; with feedback the model goes on at once."""
        self.staged.clear()
        facts = f"The user denied proposal P{self.proposals}. Nothing of it was written."
        if not feedback:
            self.messages.append({"role": "system", "content": facts})
            return None
        facts += "\nThe user's own words on it follow as the user's message."
        self.messages.append({"role": "system", "content": facts})
        return await self.say(feedback)

    def files(self) -> Sequence[str]:
        """The workspace's files, git's own left out."""
        paths = (path.relative_to(self.folder) for path in self.folder.rglob("*") if path.is_file())
        return sorted(path.as_posix() for path in paths if not {".git", "__pycache__"} & set(path.parts))

    def text(self, path: str) -> str:
        """A file as the model sees it."""
        staged = self.staged.get(path)
        return staged if staged is not None else (self.folder / path).read_text()

    def result(self, name: str, arguments: dict[str, Any]) -> str:
        """What the tool `name` answers."""
        match name:
            case "list_files":
                return "\n".join(self.files())
            case "search_text":
                pattern = arguments["pattern"].lower()
                found = [
                    f"{path}:{number}: {line}"
                    for path in self.files()
                    for number, line in enumerate(self.text(path).splitlines(), start=1)
                    if pattern in line.lower()
                ]
                return "\n".join(found) or "No matches."
            case "read_file":
                try:
                    lines = self.text(arguments["path"]).splitlines()
                except OSError:
                    return f"{arguments['path']} does not exist."
                numbered = [f"{number}\t{line}" for number, line in enumerate(lines, start=1)]
                return "\n".join([f"{arguments['path']} (version abc123, {len(lines)} lines)", *numbered])
            case "run_command":
                return "Ran 7 tests in 0.002s\n\nFAILED (failures=4)"
            case _:
                self.stage(name, arguments)
                return json.dumps({"status": "staged", "proposal": f"P{self.proposals}", "applied": False})

    def stage(self, name: str, arguments: dict[str, Any]) -> None:
        """Take an edit in; every `old` has to occur exactly once."""
        path = arguments["path"]
        match name:
            case "edit_file":
                text = before = self.text(path)
                for edit in arguments["edits"]:
                    assert before.count(edit["old"]) == 1, f"{edit['old']!r} in {path}"
                    text = text.replace(edit["old"], edit["new"])
                self.staged[path] = text
            case "write_file":
                self.staged[path] = arguments["content"]
            case "delete_file":
                self.staged[path] = None
            case "rename_file":
                self.staged[arguments["new_path"]] = self.text(path)
                self.staged[path] = None
