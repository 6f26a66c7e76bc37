"""Plays signoff's part against the demo server: the openai SDK, the real tools, and the words of the real program."""

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from app.agent.interventions import stop_after_staging_instruction
from app.conversation.events import DecisionKind, ProposalDecided
from app.conversation.proposal_reports import format_decision_facts
from app.llm.wires.wire import SystemItem
from app.proposals.locate.matching import TextReplacement
from app.proposals.values.decision_facts import FileStat
from app.proposals.values.proposal_errors import EditRefused
from app.sandbox.captured_changes import FileOrLink, PathChange, WrittenIgnoredPath
from app.sandbox.sandbox import Sandbox
from app.tools.base.contract import CallRejected, PermissionAnswer, PermissionRequest, ToolContext, ToolError
from app.tools.tool_registry import make_standard_tools
from app.workspace.paths import Workspace
from tests.unit.tools.memory_draft import nowhere

TOOLS = nowhere()
EDITS = {tool.name for tool in TOOLS if tool.kind == "edit"}


@dataclass(frozen=True)
class Response:
    """One response; that its stream says the same, tests/wire/test_demo_server.py tells."""

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

    @property
    def edited(self) -> list[str]:
        """The files that the calls propose to change."""
        return [self.arguments(number)["path"] for number in range(len(self.calls))]


@dataclass(frozen=True)
class DraftFile:
    """A file as the model sees it."""

    content: bytes | None
    version: str
    pending: tuple[str, ...] = ()
    paths_by_others: tuple[str, ...] = ()


@dataclass(frozen=True)
class Report:
    """What an edit did."""

    files: Sequence[FileStat]
    text: str = ""
    summary: str = "edited"


@dataclass
class MemoryDraft:
    """The edits of one step, kept in memory: path to text, None for a deleted file."""

    folder: Path
    id: str
    texts: dict[str, str | None] = field(default_factory=dict)
    summaries: list[str] = field(default_factory=list)
    ignored: list[WrittenIgnoredPath] = field(default_factory=list)

    def ensure_proposal_id(self) -> str:
        """The id that was given."""
        return self.id

    def read(self, path: str) -> DraftFile:
        """The file with this draft's edits."""
        if path in self.texts:
            text = self.texts[path]
            return DraftFile(None if text is None else text.encode(), "0" * 64)
        file = self.folder / path
        return DraftFile(file.read_bytes() if file.is_file() else None, "0" * 64)

    def added_and_removed_paths(self) -> tuple[set[str], set[str]]:
        """Added and removed files."""
        added = {path for path, text in self.texts.items() if text is not None and not (self.folder / path).exists()}
        return added, {path for path, text in self.texts.items() if text is None}

    def touched_paths(self) -> set[str]:
        """Changed files."""
        return set(self.texts)

    def edit(self, path: str, replacements: Collection[TextReplacement], version: str = "") -> Report:
        """Replace stretches; every one has to occur exactly once in the file as it was read."""
        before = (self.read(path).content or b"").decode()
        text = before
        for each in replacements:
            if before.count(each.old) != 1:
                raise EditRefused(f"{each.old!r} occurs {before.count(each.old)} times")
            text = text.replace(each.old, each.new)
        return self.write(path, text, "edit")

    def write(self, path: str, content: str, op: str = "create") -> Report:
        """Set a file's text."""
        self.texts[path] = content
        return Report([FileStat(path=path, op=op, added=1, removed=1)])

    def delete(self, path: str) -> Report:
        """Delete a file."""
        self.texts[path] = None
        return Report([FileStat(path=path, op="delete", added=0, removed=1)])

    def rename(self, path: str, new_path: str) -> Report:
        """Move a file."""
        self.texts[new_path], self.texts[path] = (self.read(path).content or b"").decode(), None
        return Report([FileStat(path=new_path, op="rename", added=0, removed=0)])

    def pending_files(self) -> dict[str, FileOrLink | None]:
        """What lies over the folder."""
        return {path: None if text is None else FileOrLink(text.encode(), 0o644) for path, text in self.texts.items()}

    def add_changes(self, changes: Collection[PathChange]) -> Report:
        """What a command changed."""
        for change in changes:
            self.texts[change.path] = change.after.data.decode() if change.after else None
        return Report([FileStat(path=change.path, op="edit", added=1, removed=1) for change in changes])

    def apply_patch(self, text: str) -> Report:
        """Not used by the demo model."""
        raise NotImplementedError


class Player:
    """A client with a workspace. Edits go to a draft in memory and reach the disk by `approve` alone."""

    def __init__(self, client: Any, folder: Path) -> None:
        self.client = client
        self.folder = folder
        self.messages: list[dict[str, Any]] = [{"role": "system", "content": "You are helpful."}]
        self.proposals = 0
        self.draft = MemoryDraft(folder, "P1")

    @property
    def staged(self) -> dict[str, str | None]:
        """What the waiting proposal would make of the files."""
        return self.draft.texts

    async def request(self, **more: Any) -> Response:
        """Send the messages, take the response into them and return it."""
        # The SDK would look through each value of what it is given itself, which takes longer than to answer.
        body = {"messages": self.messages, "tools": TOOLS.schemas, **more}
        completion = await self.client.chat.completions.create(model="signoff-demo", messages=(), extra_body=body)
        (choice,) = completion.choices
        calls = [call.model_dump() for call in choice.message.tool_calls or ()]
        response = Response(choice.message.content or "", calls, choice.finish_reason)
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
            await self.run(response)
            if set(response.names) & EDITS:
                return response
        raise AssertionError("the model goes on for ever")

    async def run(self, response: Response) -> None:
        """Run the calls and append their results; a step that edits becomes one proposal."""
        if set(response.names) & EDITS:
            self.proposals += 1
            self.draft = MemoryDraft(self.folder, f"P{self.proposals}")
        for number, call in enumerate(response.calls):
            result = await self.result(call["function"]["name"], response.arguments(number))
            self.messages.append({"role": "tool", "tool_call_id": call["id"], "content": result})

    async def result(self, name: str, arguments: dict[str, Any]) -> str:
        """What the tool `name` answers."""
        draft: Any = self.draft
        context = ToolContext(Workspace(self.folder), draft, lambda text: None, self.confirm)
        tools = make_standard_tools(lambda: Sandbox(context.workspace, self.folder.parent / "runs", own_folders=()))
        tool = tools.get_tool(name)
        assert tool is not None
        try:
            return (await tool.run(tools.parse_arguments(name, arguments), context)).text
        except (ToolError, CallRejected) as error:
            return str(error)

    async def confirm(self, permission_request: PermissionRequest) -> PermissionAnswer:
        """The user allows what is asked for."""
        return PermissionAnswer(allowed=True)

    def _note(self, text: str, *, introduces: bool) -> None:
        self.messages.append({"role": "system", "content": SystemItem(text, introduces=introduces).full_text()})

    async def close_gate(self) -> Response:
        """The closing request: the same tools, none to be called, and the note at the end of this request alone."""
        note = {"role": "system", "content": stop_after_staging_instruction([f"P{self.proposals}"], self.staged).text}
        self.messages.append(note)
        try:
            return await self.request(tool_choice="none")
        finally:
            self.messages.remove(note)

    def answer(self, question: Response, text: str) -> None:
        """The user's answer to a question."""
        self.messages.append({"role": "tool", "tool_call_id": question.calls[0]["id"], "content": text})

    def approve(self) -> None:
        """The user approves what is staged: it is written."""
        for path, text in self.staged.items():
            file = self.folder / path
            if text is None:
                file.unlink()
            else:
                file.parent.mkdir(exist_ok=True)
                file.write_text(text)
        self._decided(DecisionKind.APPROVED)

    def deny(self) -> None:
        """The user denies what is staged, without a word."""
        self._decided(DecisionKind.DENIED)

    async def request_changes(self, feedback: str) -> Response:
        """The user denies what is staged and says why; the model goes on at once."""
        self._decided(DecisionKind.DENIED, feedback)
        return await self.say(feedback)

    def _decided(self, decision: DecisionKind, feedback: str = "") -> None:
        files = tuple(FileStat(path=path, op="edit", added=1, removed=1) for path in self.staged)
        event = ProposalDecided(proposal=f"P{self.proposals}", decision=decision, files=files, feedback=feedback)
        self._note(format_decision_facts(event), introduces=bool(feedback))
        self.draft = MemoryDraft(self.folder, f"P{self.proposals + 1}")
