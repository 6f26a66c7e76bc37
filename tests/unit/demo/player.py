"""Plays signoff's part against the demo model: the real tools, and the words of the real program."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from app.agent.interventions import stop_after_staging_instruction
from app.conversation.events import DecisionKind, ProposalDecided
from app.conversation.proposal_reports import format_decision_facts
from app.demo.demo_conversation import MODEL_ID
from app.demo.demo_model import reply_to_request
from app.demo.demo_server import DemoChatCompletion
from app.llm.wires.wire import SystemItem
from app.proposals.values.decision_facts import FileDiffStat
from app.tools.base.contract import PermissionAnswer, ToolCallNotPermitted, ToolError
from app.workspace.paths import Workspace
from tests.unit.tools.memory_draft import Bench, MemoryDraft, nowhere

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


class Player:
    """A client with a workspace. Edits go to a draft in memory and reach the disk by `approve` alone."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.messages: list[dict[str, Any]] = [{"role": "system", "content": "You are helpful."}]
        self.proposals = 0
        self.draft = MemoryDraft(Workspace(folder))

    @property
    def staged(self) -> dict[str, str | None]:
        """The files as the waiting proposal would leave them."""
        return {path: None if data is None else data.decode() for path, data in self.draft.held.items()}

    async def request(self, **more: Any) -> Response:
        """Send the messages, take the response into them and return it."""
        body = {"model": MODEL_ID, "messages": self.messages, "tools": TOOLS.schemas, **more}
        (choice,) = DemoChatCompletion(body, reply_to_request(body)).to_json()["choices"]
        given = choice["message"]
        response = Response(given["content"] or "", given.get("tool_calls", []), choice["finish_reason"])
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
            self.draft = MemoryDraft(Workspace(self.folder))
        for number, call in enumerate(response.calls):
            result = await self.result(call["function"]["name"], response.arguments(number))
            self.messages.append({"role": "tool", "tool_call_id": call["id"], "content": result})

    async def result(self, name: str, arguments: dict[str, Any]) -> str:
        """Return what the tool `name` answers; the user allows all that it asks for."""
        try:
            return (
                await Bench(self.draft.workspace, self.draft, PermissionAnswer(True)).call(name, **arguments)
            ).text
        except (ToolError, ToolCallNotPermitted) as error:
            return str(error)

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
        files = tuple(FileDiffStat(path=path, op="edit", added=1, removed=1) for path in self.staged)
        event = ProposalDecided(proposal=f"P{self.proposals}", decision=decision, files=files, feedback=feedback)
        self._note(format_decision_facts(event), introduces=bool(feedback))
        self.draft = MemoryDraft(Workspace(self.folder))
