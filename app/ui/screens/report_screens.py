"""Dialogs with reports: endpoint checks, verified commits, skills, and the last request.

The view of the request marks the program's messages and lists the ladder's decisions.
"""

import asyncio
import json
import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from itertools import takewhile
from pathlib import Path
from typing import Any

from msgspec import Struct
from textual import work
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Static

from app.attestation.commit_verification import CommitVerification, RangeVerification, describe_signers, verify_range
from app.conversation.events import Event, NextActionChosen, TurnStarted
from app.conversation.payload.compaction_plan import estimate_text_tokens
from app.git.run_git import GitFailed
from app.images.image import format_bytes
from app.llm.endpoint_doctor import (
    CHECKS,
    DoctorCheckResult,
    EndpointDiagnosis,
    describe_learned_fields,
    examine_and_learn,
)
from app.llm.values.requests_and_updates import Endpoint
from app.llm.wires.wire_registry import RequestInputs
from app.prompts.skills import Skill, SkillCatalogue
from app.runtime.model_connection import LearnedProfileStore
from app.runtime.open_workspace import OpenWorkspace
from app.runtime.prompt_sources import check_commands_skills_and_hooks
from app.sandbox.confinement import CommandWriteMode
from app.text.quantities import format_count
from app.text.safe_text import escape_unsafe
from app.tools.command.command_result import describe_how_commands_run
from app.ui.screens.dialog import Dialog, DialogKey, TextDialog, safe_content
from app.workspace.git_repository import folder_path_in_repository
from widgets.common.figures import format_short_number
from widgets.common.text_view import TextView, TextViewLine

_CHECK_MARKS = {
    True: ("✓", "bold $text-success"),
    False: ("✗", "bold $text-error"),
    None: ("?", "bold $text-warning"),
}
_COMMANDS_CHECK, _LEARNED_CHECK = "commands", "learned"
_CHECK_TITLES = {
    "reachable": "Reachable",
    "key": "Key",
    "model": "Model",
    "wire": "Wire",
    "streaming": "Streaming",
    "usage": "Token counts",
    "tools": "Tools",
    "tool_choice": "Closing the gate",
    "mid_system": "System messages",
    _LEARNED_CHECK: "Learned",
    _COMMANDS_CHECK: "Commands",
    "own_commands": "Your commands",
    "skills": "Skills",
    "hooks": "Hooks",
}


class EndpointDoctorScreen(Dialog[bool]):
    """Examines the endpoint and shows the findings; True if something was learned for the next request.

    Args:
        overrides: The user's `[profile]`, with the wire.
    """

    HEADING = "Doctor"
    KEYS = (DialogKey("r", "check again", "again"), DialogKey("escape", "close"))

    DEFAULT_CSS = """
    EndpointDoctorScreen {
        & > #dialog { width: 92; }
        VerticalScroll { height: auto; }
        &.-short > #dialog { height: 100%; }
        &.-short VerticalScroll { height: 1fr; }
        #doctor-summary { min-height: 1; }
    }
    """

    def __init__(self, runtime: OpenWorkspace, endpoint: Endpoint, overrides: Mapping[str, Any]) -> None:
        super().__init__(classes="-small")
        self._runtime = runtime
        self._endpoint = endpoint
        self._overrides = overrides
        self._checks: dict[str, DoctorCheckResult] = {}
        self._has_learned = False

    def compose_body(self) -> Iterable[Widget]:
        address = escape_unsafe(f"{self._endpoint.base_url} · {self._endpoint.model}", keep="")
        with VerticalScroll():
            yield Static(Content(address), id="doctor-address", classes="text quiet")
            yield Static(id="doctor-checks", classes="text gap")
            yield Static(id="doctor-summary", classes="text gap")

    def on_mount(self) -> None:
        self.action_again()

    def action_again(self) -> None:
        """Run all checks again."""
        self._checks = {}
        self.query_one("#doctor-summary", Static).update("")
        self._draw_checks(busy=True)
        self._run_checks()

    @work(group="examine", exclusive=True, exit_on_error=False, description="examine the endpoint")
    async def _run_checks(self) -> None:
        start = time.monotonic()
        summary = self.query_one("#doctor-summary", Static)
        cache = LearnedProfileStore(self._runtime.sessions)
        try:
            probe = await self._runtime.sandbox.probe()
            for check in await asyncio.to_thread(lambda: list(check_commands_skills_and_hooks(self._runtime))):
                self._checks[check.name] = check
            self._checks[_COMMANDS_CHECK] = DoctorCheckResult(
                _COMMANDS_CHECK, probe.mode is not CommandWriteMode.IN_PLACE, describe_how_commands_run(probe)
            )
            async for finding in examine_and_learn(cache, self._endpoint, self._overrides):
                match finding:
                    case DoctorCheckResult():
                        self._checks[finding.name] = finding
                        self._draw_checks(busy=True)
                    case EndpointDiagnosis():
                        self._checks[_LEARNED_CHECK] = await asyncio.to_thread(
                            describe_learned_fields, cache, self._endpoint
                        )
                        self._has_learned = True
                        summary.update(describe_diagnosis_conclusion(finding))
        except Exception as error:
            summary.update(safe_content(f"The examination ended early: {error}", "$text-error"))
        self._draw_checks(busy=False)
        self.show_status(f"{time.monotonic() - start:.1f} s")

    def _draw_checks(self, *, busy: bool) -> None:
        rows: list[Content] = []
        waiting = busy
        other_checks = [name for name in self._checks if name not in (*CHECKS, _LEARNED_CHECK, _COMMANDS_CHECK)]
        for name in (*CHECKS, _LEARNED_CHECK, _COMMANDS_CHECK, *other_checks):
            title = _CHECK_TITLES.get(name, name).ljust(18)
            check = self._checks.get(name)
            if check is not None:
                mark, style = _CHECK_MARKS[check.ok]
                rows.append(
                    Content.assemble((f"{mark} ", style), (title, "bold"), escape_unsafe(check.detail, keep=""))
                )
            elif waiting:
                rows.append(
                    Content.assemble(("… ", "$text-accent"), (title, "bold"), ("examining", "$foreground 65%"))
                )
                waiting = False
            else:
                rows.append(Content.styled(f"  {title}", "$foreground 65%"))
        self.query_one("#doctor-checks", Static).update(Content("\n").join(rows))

    def action_leave(self) -> None:
        self.dismiss(self._has_learned)


def describe_diagnosis_conclusion(diagnosis: EndpointDiagnosis) -> Content:
    """Return the conclusion from the checks, with their titles as in the list."""
    if not diagnosis.usable:
        return safe_content(diagnosis.summary, "bold $text-error")
    missing_titles = [_CHECK_TITLES.get(check.name, check.name) for check in diagnosis.checks if not check.ok]
    if not missing_titles:
        return Content.styled("Everything works.", "bold $text-success")
    return Content.assemble(
        ("signoff works with this endpoint. ", "bold $text-success"),
        (f"It works around what is missing or uncertain: {', '.join(missing_titles)}.", "$foreground 65%"),
    )


_QUIET_STYLE = "$foreground 65%"


class UnreviewedBranchFiles(Struct, frozen=True):
    """Files that the branch changes and no review covers."""

    base: str
    """The commit before the branch."""
    paths: Sequence[str]
    """Paths relative to the workspace."""


class CommitReviewCoverageScreen(Dialog[UnreviewedBranchFiles]):
    """Shows which commits to be pushed are covered by reviews; the result is the uncovered files, if the user wants
    to review them."""

    HEADING = "Verify"
    KEYS = (
        DialogKey("r", "review what is not covered", "review"),
        DialogKey("up,down,pageup,pagedown", "scroll"),
        DialogKey("escape", "close"),
    )
    DEFAULT_CSS = """
    CommitReviewCoverageScreen {
        VerticalScroll { height: auto; max-height: 1fr; }
        VerticalScroll Static { height: auto; }
    }
    """

    def __init__(self, root: Path) -> None:
        super().__init__(classes="-small")
        self._root = root
        self._unreviewed: UnreviewedBranchFiles | None = None

    def compose_body(self) -> Iterable[Widget]:
        yield Static("Verifying…", id="verify-summary", classes="text")
        with VerticalScroll():
            yield Static(id="verify-commits", classes="text gap")

    def on_mount(self) -> None:
        self.query_one(VerticalScroll).focus()
        self._verify_branch()

    def action_review(self) -> None:
        """Close with the uncovered files; the caller stages them."""
        if self._unreviewed is None:
            self.show_status("no file to review")
        else:
            self.dismiss(self._unreviewed)

    @work(group="verify", exclusive=True, exit_on_error=False, description="verify the branch")
    async def _verify_branch(self) -> None:
        summary = self.query_one("#verify-summary", Static)
        try:
            verified = await asyncio.to_thread(verify_range, self._root, "", time.time())
        except GitFailed as error:
            summary.update(safe_content(str(error), "$text-error"))
            return
        style = "bold $text-success" if verified.covered else "bold $text-error"
        summary.update(safe_content(verified.summary, style))
        rows = [row for commit in verified.commits for row in _commit_rows(commit)]
        self.query_one("#verify-commits", Static).update(Content("\n").join(rows))
        self._unreviewed = self._find_unreviewed(verified)

    def _find_unreviewed(self, verified: RangeVerification) -> UnreviewedBranchFiles | None:
        folder = folder_path_in_repository(self._root)
        prefix = f"{folder}/" if folder else ""
        paths = {file.path for commit in verified.commits for file in commit.files if not file.covered}
        workspace_paths = sorted(path.removeprefix(prefix) for path in paths if path.startswith(prefix))
        return UnreviewedBranchFiles(verified.base, workspace_paths) if workspace_paths and verified.base else None


def _commit_rows(commit: CommitVerification) -> Iterable[Content]:
    mark, style = ("✓", "$text-success") if commit.covered else ("✗", "$text-error")
    exempt = f"  {commit.exempt}" if commit.exempt else ""
    yield Content.assemble(
        (f"{mark} ", style),
        (f"{commit.commit[:7]} ", _QUIET_STYLE),
        (escape_unsafe(commit.subject, keep=""), "bold"),
        (exempt, _QUIET_STYLE),
    )
    for file in commit.files:
        sign, style = ("✓", "$text-success") if file.covered else ("✗", "$text-error")
        state_text = describe_signers(file.reviews) if file.covered else f"{file.problem} {file.requirement}"
        yield Content.assemble(
            (f"  {sign} ", style),
            escape_unsafe(file.path, keep=""),
            (f"  {escape_unsafe(state_text, keep='')}", _QUIET_STYLE),
        )


class SkillsScreen(Dialog[None]):
    """A read-only list of skills.

    Args:
        skills: The skills in the files now.
        model_skills: The skills that the open session uses; None without a session.
    """

    HEADING = "Skills"
    KEYS = (DialogKey("up,down,pageup,pagedown", "scroll"), DialogKey("escape", "close"))
    DEFAULT_CSS = """
    SkillsScreen {
        VerticalScroll { height: auto; max-height: 1fr; }
        VerticalScroll Static { height: auto; }
    }
    """

    def __init__(self, skills: SkillCatalogue, model_skills: SkillCatalogue | None) -> None:
        super().__init__(classes="-small")
        self._skills = skills
        self._model_skills = model_skills

    def compose_body(self) -> Iterable[Widget]:
        yield Static(_skill_summary(self._skills, self._model_skills), classes="text quiet")
        with VerticalScroll():
            for skill in self._skills.by_name.values():
                yield Static(_skill_row(skill), classes="text gap")
            for problem in self._skills.problems:
                yield Static(safe_content(problem), classes="text warning gap")

    def on_mount(self) -> None:
        self.query_one(VerticalScroll).focus()


def _skill_row(skill: Skill) -> Content:
    return Content("\n").join(
        [
            safe_content(skill.name, "bold $text-accent"),
            safe_content(skill.description),
            safe_content(skill.where, "$foreground 65%"),
        ]
    )


def _skill_summary(skills: SkillCatalogue, model_skills: SkillCatalogue | None) -> Content:
    if not skills.by_name:
        return Content("There are none. A skill is a folder with a SKILL.md in .agents/skills, here or in your home.")
    tokens = estimate_text_tokens(skills.prompt_text())
    summary = (
        f"{format_count(len(skills.by_name), 'skill')}: about {format_short_number(tokens)} tokens of each request."
    )
    if model_skills is not None and model_skills.prompt_text() != skills.prompt_text():
        summary += " This session uses the skills from when it was opened; /new loads the present ones."
    return Content(summary)


class LastRequestScreen(TextDialog):
    """The body of the last request as formatted JSON, and the ladder's decisions of the last turn."""

    KEYS = (
        DialogKey("s", "next system message", "next_system"),
        DialogKey("t", "tools", "tools"),
        DialogKey("d", "why it was sent", "decisions"),
        DialogKey("c", "copy all", "copy"),
        *TextDialog.KEYS,
    )
    DEFAULT_CSS = "LastRequestScreen TextView { margin-top: 1; }"

    def __init__(self, request: RequestInputs, moves: Sequence[NextActionChosen] = ()) -> None:
        super().__init__("Wire · the last request")
        self._next_actions = moves
        self._body = make_request_body_readable(request.make_body())
        self._summary = request_summary(request, self._body)

    def compose_body(self) -> Iterable[Widget]:
        yield Static(self._summary, classes="text")
        yield from super().compose_body()

    def on_mount(self) -> None:
        """Format the request on a thread, since it may be long."""
        self._show_lines()

    @work(exit_on_error=False, description="lay out the payload")
    async def _show_lines(self) -> None:
        lines = [*await asyncio.to_thread(request_body_lines, self._body), *next_action_lines(self._next_actions)]
        self.query_one(TextView).set_lines(lines)
        self.show_status(f"{len(lines)} lines")

    def action_next_system(self) -> None:
        """Go to the next message of the program; after the last one, to the first."""
        view = self.query_one(TextView)
        system_lines = view.marked_lines("program")
        current_line = view.first_line + 2
        following = [line for line in system_lines if line > current_line and not view.is_at_end]
        if system_lines:
            view.go_to_line(following[0] if following else system_lines[0])

    def action_tools(self) -> None:
        """Go to the tools."""
        self._go_to_heading(0)

    def action_decisions(self) -> None:
        """Go to the decisions of the turn."""
        self._go_to_heading(-1)

    def _go_to_heading(self, index: int) -> None:
        view = self.query_one(TextView)
        if headings := view.marked_lines("heading"):
            view.go_to_line(headings[index])

    def action_copy(self) -> None:
        """Copy the whole request as JSON."""
        self.copy_text(format_request_body(self._body))


def next_actions_of_last_turn(events: Sequence[Event]) -> list[NextActionChosen]:
    """Return the decisions about the next action of the turn that the agent made in the last turn, in order."""
    newest_first = takewhile(lambda event: not isinstance(event, TurnStarted), reversed(events))
    return [event for event in newest_first if isinstance(event, NextActionChosen)][::-1]


def next_action_lines(moves: Sequence[NextActionChosen]) -> list[TextViewLine]:
    """Return the lines that show the agent's decisions about the next action: a heading, then one line for each."""
    if not moves:
        return []
    lines = [TextViewLine((("", ""),)), TextViewLine((("Decisions of the last turn", "key"),), "heading")]
    for move in moves:
        time_of_day = datetime.fromtimestamp(move.time).strftime("%H:%M:%S")
        lines.append(
            TextViewLine(((f"{time_of_day}  ", "quiet"), (escape_unsafe(move.description, keep=""), "string")))
        )
    return lines


_CONVERSATION_FIELDS = ("messages", "input")
"""Names of the field with the conversation, by wire."""
_PROMPT_FIELDS = ("system", "instructions")
"""Names of the field with the system prompt, by wire."""


def make_request_body_readable(body: dict[str, Any]) -> dict[str, Any]:
    """Return the body made readable: short values first, tools last, image data replaced by its size."""
    body = _replace_image_data(body)
    last = [name for name in (*_PROMPT_FIELDS, *_CONVERSATION_FIELDS, "tools") if name in body]
    return {name: value for name, value in body.items() if name not in last} | {name: body[name] for name in last}


_IMAGE_DATA_FIELDS = ("url", "image_url", "data")
"""Names of the fields with image data."""


def _replace_image_data(value: Any) -> Any:
    match value:
        case dict():
            return {
                key: _describe_image_data(inner)
                if key in _IMAGE_DATA_FIELDS and isinstance(inner, str)
                else _replace_image_data(inner)
                for key, inner in value.items()
            }
        case list():
            return [_replace_image_data(inner) for inner in value]
    return value


def _describe_image_data(text: str) -> str:
    """Replace base64 data by its size; keep the head of a data URL."""
    head, comma, data = text.rpartition(",")
    return f"{head}{comma}[{format_bytes(len(data) * 3 // 4)} of base64]"


def format_request_body(body: dict[str, Any]) -> str:
    """Return the body as text for copying."""
    return json.dumps(body, ensure_ascii=False, indent=2)


def request_summary(request: RequestInputs, body: dict[str, Any]) -> Content:
    """Return one line about a request: API format, number of messages and tools, tool choice."""
    payload = request.payload
    program_messages = sum(message.get("role") in _PROGRAM_ROLES for message in payload.messages)
    prompt_text = " and the prompt" if any(name in body for name in _PROMPT_FIELDS) else ""
    parts = [
        Content(request.wire.title),
        Content(f"{len(payload.messages)} messages, {program_messages} by signoff{prompt_text}"),
        Content(format_count(len(payload.tools), "tool")),
    ]
    if payload.tool_choice is None:
        parts.append(Content.styled("The model may call tools", "$text-success"))
    else:
        text = f'No tool calls: tool_choice "{payload.tool_choice}"'
        parts.append(safe_content(text, "bold $text-warning"))
    return Content(" · ").join(parts)


def request_body_lines(body: dict[str, Any]) -> list[TextViewLine]:
    """Return the coloured lines of `format_request_body`, with system messages, `tools` and `tool_choice` marked."""
    lines: list[TextViewLine] = [TextViewLine((("{", "quiet"),))]
    keys = list(body)
    for key in keys:
        comma = "," if key != keys[-1] else ""
        if key in _CONVERSATION_FIELDS and body[key]:
            lines.append(TextViewLine((("  ", ""), (f'"{key}"', "key"), (": [", "quiet"))))
            for number, message in enumerate(body[key]):
                end = "," if number < len(body[key]) - 1 else ""
                lines += _value_lines(
                    message, "    ", end, "program" if message.get("role") in _PROGRAM_ROLES else ""
                )
            lines.append(TextViewLine(((f"  ]{comma}", "quiet"),)))
            continue
        block = _value_lines(body[key], "  ", comma, _WIRE_MARKS.get(key, ""), key=key)
        if key == "tools":
            block[0] = TextViewLine(block[0].pieces, "heading")
        lines += block
    lines.append(TextViewLine((("}", "quiet"),)))
    return lines


_PROGRAM_ROLES = ("system", "developer")
_WIRE_MARKS = {"tool_choice": "important", **dict.fromkeys(_PROMPT_FIELDS, "program")}


def _value_lines(value: Any, indent: str, end: str, mark: str, key: str = "") -> list[TextViewLine]:
    text = json.dumps(value, ensure_ascii=False, indent=2)
    rows = text.split("\n")
    rows[0] = (f'"{key}": ' if key else "") + rows[0]
    rows[-1] += end
    return [TextViewLine(_colour_json_line(indent + row), mark) for row in rows]


def _colour_json_line(row: str) -> tuple[tuple[str, str], ...]:
    stripped = row.lstrip()
    indent = row[: len(row) - len(stripped)]
    if stripped.startswith('"'):
        name, colon, value = stripped.partition('": ')
        if colon:
            return ((indent, ""), (f'{name}"', "key"), (": ", "quiet"), (value, _json_style(value)))
    return ((indent, ""), (stripped, _json_style(stripped)))


def _json_style(value: str) -> str:
    if value[:1] in "{}[]":
        return "quiet"
    return "string" if value.startswith('"') else "number"
