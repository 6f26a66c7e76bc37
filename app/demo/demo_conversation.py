"""The conversation as the demo model reads it: turns of the user, each with its steps.

The server keeps no conversation between requests: the request's messages contain everything that the model knows.
"""

import json
import re
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import dropwhile
from pathlib import Path
from typing import Any

from msgspec import Struct

from app.copies import replace
from app.text.quantities import join_with_and
from app.text.safe_text import make_code_fence

WORDING: dict[str, Any] = tomllib.loads((Path(__file__).parent / "words.toml").read_text(encoding="utf-8"))
MODEL_ID = "signoff-demo"
PATH_PATTERN = re.compile(r"(?<![\w/])(?:[\w@.-]+/)*[\w@.-]*\w\.[A-Za-z]\w{0,9}\b|(?<![\w/])(?:[\w@.-]+/)+[\w@.-]+")
"""Matches a file name: with a dot and a suffix, or with a slash."""
MAX_QUOTED_LINES = 14
"""Maximum lines of a quotation."""


class PlannedCall(Struct, frozen=True):
    """A tool call that the demo model makes next."""

    name: str
    arguments: dict[str, Any]


class DemoReply(Struct, frozen=True):
    """A reply of the demo model: Markdown text, and the tool calls after it."""

    text: str
    calls: Sequence[PlannedCall] = ()


def make_code_block_of_last_lines(text: str, *, language: str = "") -> str:
    """Return the last lines of a text as a fenced code block that its content cannot close."""
    shown = "\n".join(text.strip("\n").splitlines()[-MAX_QUOTED_LINES:])
    fence = make_code_fence(shown)
    return f"{fence}{language}\n{shown}\n{fence}"


def format_code_list(names: Sequence[object]) -> str:
    """Return names as code in a sentence: "`a`, `b` and `c`"."""
    return join_with_and([f"`{name}`" for name in names])


_SYSTEM_ROLES = ("system", "developer")
EDIT_TOOLS = frozenset({"edit_file", "write_file", "delete_file", "rename_file", "apply_patch"})

_STAGED_RESULT = re.compile(r'"status":\s*"staged"|^\W*staged\b', re.IGNORECASE)
_PROPOSAL_ID = re.compile(r"\bP\d+\b")
_VOID_RESULT = re.compile(
    r"^\W*(?:Aborted|Not run|Refused|No result|The program ended|The user (?:has not|did not) answer)\b",
    re.IGNORECASE,
)
_NOTE_PATTERNS = {fact: re.compile(pattern, re.IGNORECASE | re.DOTALL) for fact, pattern in WORDING["notes"].items()}
_PLACEHOLDER = re.compile(r"\([^()]{1,60}\)")
"""Text that clients put between a tool result and the user's message for some servers: "(stopped here)"."""


class DemoCallWithResult(Struct):
    """A tool call that the conversation of a request already has, with its result."""

    id: str
    name: str
    arguments: dict[str, Any]
    result: str = ""
    """Empty if it never ran, or ended without a result."""

    @property
    def is_staged(self) -> bool:
        """Return whether this was an edit that the client has staged."""
        return self.name in EDIT_TOOLS and bool(_STAGED_RESULT.search(self.result))


class DemoPastResponse(Struct):
    """An earlier response in the conversation of a request: its text, and its calls with their results."""

    text: str
    calls: list[DemoCallWithResult]


class DemoTurn(Struct):
    """A message of the user, the program's notes before it, and the steps after it."""

    text: str = ""
    notes: list[str] = []
    steps: list[DemoPastResponse] = []
    images: int = 0
    """Number of images in the user's message."""

    @property
    def calls(self) -> list[DemoCallWithResult]:
        """Return all calls of the turn, in order."""
        return [call for step in self.steps for call in step.calls]

    @property
    def edits(self) -> list[DemoCallWithResult]:
        """Return the edit calls of the turn, in order."""
        return [call for call in self.calls if call.name in EDIT_TOOLS]

    @property
    def staged_edits(self) -> list[DemoCallWithResult]:
        """Return the edits of this turn that became part of a proposal."""
        return [call for call in self.calls if call.is_staged]

    def has_note(self, fact: str) -> bool:
        """Return whether a note of the program states this fact: a key of `notes` in words.toml."""
        return any(_NOTE_PATTERNS[fact].search(note) for note in self.notes)

    @property
    def answers(self) -> list[str]:
        """Return the user's answers to the questions of this turn."""
        return [call.result for call in self.calls if call.name == "ask_user" and call.result]


def parse_turns_from_messages(messages: Sequence[dict[str, Any]]) -> tuple[DemoTurn, ...]:
    """Return the user's turns in the messages of a request; the last one needs an answer.

    Raises:
        LookupError, TypeError, ValueError: The messages are not in the form of the Chat Completions API.
    """
    turns, notes, calls = [DemoTurn()], list[str](), dict[str, DemoCallWithResult]()
    for message in dropwhile(lambda one: one["role"] in _SYSTEM_ROLES, messages):
        text = content_text(message.get("content"))
        match message["role"]:
            case "system" | "developer":
                notes.append(text)
            case "user" if turns[-1].calls and notes and _NOTE_PATTERNS["call_denied"].search(notes[-1]):
                # A comment on a denied call; the turn continues.
                turns[-1].calls[-1].result += f"\n\n{text}"
                notes.clear()
            case "user":
                turn = _turn_after_notes(turns, notes, by_user=True)
                turn.text = "\n\n".join(filter(None, (turn.text, text)))
                turn.images += _count_images(message.get("content"))
            case "assistant" if (made := message.get("tool_calls")) or not _PLACEHOLDER.fullmatch(text):
                step = DemoPastResponse(text, [_parse_call(call) for call in made or ()])
                calls.update((call.id, call) for call in step.calls)
                _turn_after_notes(turns, notes).steps.append(step)
            case "tool":
                calls[message["tool_call_id"]].result = "" if _VOID_RESULT.search(text) else text
    _turn_after_notes(turns, notes)
    return tuple(turns)


def _turn_after_notes(turns: list[DemoTurn], notes: list[str], *, by_user: bool = False) -> DemoTurn:
    """Return the turn that continues after `notes`: the last one, or a new one that the notes or the user start."""
    turn = turns[-1]
    if turn.steps and (by_user or any(map(is_decision_note, notes)) or (notes and not turn.steps[-1].calls)):
        turns.append(turn := DemoTurn())
    if not turn.steps:
        turn.notes += notes
    notes.clear()
    return turn


def content_text(content: Any) -> str:
    """Return the text of a message's content, with its parts joined."""
    if content is None or isinstance(content, str):
        return content or ""
    return "".join(part["text"] for part in content if part["type"] != "image_url")


def _count_images(content: Any) -> int:
    return sum(part["type"] == "image_url" for part in content) if isinstance(content, list) else 0


def is_decision_note(note: str) -> bool:
    """Return whether a note of the program reports a decision of the user."""
    return bool(_NOTE_PATTERNS["denied"].search(note) or _NOTE_PATTERNS["approved"].search(note))


def find_proposal_ids(texts: Sequence[str]) -> list[str]:
    """Return the ids of the proposals that the texts name, each once."""
    return list(dict.fromkeys(found for text in texts for found in _PROPOSAL_ID.findall(text)))


def _parse_call(call: dict[str, Any]) -> DemoCallWithResult:
    arguments = json.loads(call["function"]["arguments"])
    if not isinstance(arguments, dict):
        raise ValueError("The arguments of a tool call must be a JSON object, as text.")
    return DemoCallWithResult(call["id"], call["function"]["name"], arguments)


_NUMBERED_LINE = re.compile(r"^(\d+)\t(.*)$")
_MORE_LINES_NOTE = re.compile(r"^\[.*start_line=(\d+)\]$", re.MULTILINE)
_NO_FINAL_NEWLINE = re.compile(r"^\[no newline at the end", re.MULTILINE)
_VERSION = re.compile(r"^\S.*\(version (\w+)")
_PATH_SUFFIX = re.compile(r" {2,}\[.*\]$")
"""Suffix of a path in the output of `list_files`: `[staged, not on disk yet]`."""


class DemoKnownFiles:
    """The files that the demo model knows from tool results: the paths listed, and the texts that were read."""

    def __init__(self, calls: Iterable[DemoCallWithResult]) -> None:
        self.paths: list[str] | None = None
        """The files of the last listing; None if no files were listed."""
        self.texts: dict[str, str] = {}
        """Content by path, of files that were read to the end."""
        self.versions: dict[str, str] = {}
        self.asked: set[str] = set()
        """Paths that the model has tried to read, even if that failed."""
        self._started_reads: dict[str, tuple[str, int]] = {}
        """For long files that are read in pages: content so far and the next line, by path."""
        for call in calls:
            match call.name:
                case "list_files" if call.result:
                    self.paths = parse_listed_paths(call.result)
                case "read_file" if call.result:
                    self._add_page(call)

    def _add_page(self, call: DemoCallWithResult) -> None:
        path, first = str(call.arguments.get("path", "")), call.arguments.get("start_line")
        start = first if isinstance(first, int) else 1
        self.asked.add(path)
        before, expected = self._started_reads.get(path, ("", 1)) if start > 1 else ("", start)
        page = extract_file_text(call.result, start)
        if page is None or start != expected:
            return
        self._started_reads.pop(path, None)
        if version := _VERSION.search(call.result):
            self.versions[path] = version[1]
        if more := _MORE_LINES_NOTE.search(call.result):
            self._started_reads[path] = before + page, int(more[1])
        else:
            self.texts[path] = before + page

    def calls_to_read(self, paths: Iterable[str]) -> list[PlannedCall]:
        """Return the calls that are still needed to read all of `paths`."""
        pages = [(path, self._started_reads.get(path)) for path in dict.fromkeys(paths)]
        return [
            PlannedCall("read_file", {"path": path, "start_line": begun[1]} if begun else {"path": path})
            for path, begun in pages
            if begun or path not in self.asked
        ]

    def read_file_texts(self, paths: Iterable[str]) -> dict[str, str]:
        """Return the content of those of `paths` that could be read, by path."""
        return {path: self.texts[path] for path in paths if path in self.texts}


def extract_file_text(result: str, first_line: int = 1) -> str | None:
    """Return the file content in a result of `read_file`, from line `first_line` on; None if it contains none."""
    lines: list[str] = []
    for line in result.split("\n"):
        if (numbered := _NUMBERED_LINE.match(line)) and int(numbered[1]) == first_line + len(lines):
            lines.append(numbered[2])
    return "\n".join(lines) + ("" if _NO_FINAL_NEWLINE.search(result) else "\n") if lines else None


def parse_listed_paths(result: str) -> list[str]:
    """Return the paths in a result of `list_files`, without folders and remarks."""
    names = (_PATH_SUFFIX.sub("", line).strip() for line in result.splitlines())
    return [name for name in names if name and name[0] != "[" and not name.endswith((".", "/", ")"))]


_INTENT_PATTERNS = {kind: re.compile(pattern, re.IGNORECASE) for kind, pattern in WORDING["intents"].items()}


class DemoIntent(Struct, frozen=True):
    """What a message asks the demo model for: the kind of request, and the files that it names."""

    kind: str
    """A key of `intents` in words.toml; "other" if none fits."""
    paths: tuple[str, ...] = ()
    """Files that the request names."""


def read_intent(text: str) -> DemoIntent:
    """Recognise by keywords what a message asks for, and the files that it names."""
    paths = tuple(dict.fromkeys(PATH_PATTERN.findall(text)))
    return DemoIntent(
        next((kind for kind, pattern in _INTENT_PATTERNS.items() if pattern.search(text)), "other"), paths
    )


@dataclass(frozen=True)
class DemoTaskWithTurns:
    """A request of the user to the demo model, with the feedback and all later turns that belong to it."""

    intent: DemoIntent
    text: str
    """The text of the request."""
    feedback: tuple[str, ...]
    """The user's feedback on each denied attempt, oldest first."""
    thread: tuple[DemoTurn, ...]
    """The turns since the request; the last is the current one."""

    @property
    def turn(self) -> DemoTurn:
        """Return the current turn."""
        return self.thread[-1]

    @cached_property
    def results_of_turn(self) -> DemoKnownFiles:
        """Return the results of this turn; files may have changed since earlier turns."""
        return DemoKnownFiles(self.turn.calls)

    @cached_property
    def results_of_task(self) -> DemoKnownFiles:
        """Return the results since the request was made."""
        return DemoKnownFiles(call for turn in self.thread for call in turn.calls)

    @property
    def listed_files(self) -> list[str] | None:
        """Return the files of the workspace; None if they were not listed since the request was made."""
        return self.results_of_task.paths

    def is_new_proposal(self, calls: Sequence[PlannedCall]) -> bool:
        """Return whether `calls` differ from what the first editing step of every turn proposed."""
        steps = ([_edit_keys(step.calls) for step in turn.steps] for turn in self.thread)
        return _edit_keys(calls) not in [next(filter(None, edits), set()) for edits in steps]


def _edit_keys(calls: Sequence[DemoCallWithResult | PlannedCall]) -> set[str]:
    """Return the edits among `calls` as comparable texts, without their descriptions."""
    edits = [
        (call.name, {**call.arguments, "summary": "", "version": ""}) for call in calls if call.name in EDIT_TOOLS
    ]
    return {json.dumps(edit, sort_keys=True) for edit in edits}


def find_current_task(turns: Sequence[DemoTurn]) -> DemoTaskWithTurns:
    """Return the request on which the demo model works now, with the later turns that belong to it."""
    start = len(turns) - 1
    while start > 0 and _continues_task(turns[start]):
        start -= 1
    thread = tuple(turns[start:])
    text, intent = thread[0].text, read_intent(thread[0].text)
    feedback: list[str] = []
    for turn in thread:
        if turn.has_note("denied") and turn.text and turn is not thread[0]:
            feedback.append(turn.text)
        for answer in turn.answers:
            if intent.kind == "vague":
                # The answer clarifies the vague request; the files that the request named still apply.
                chosen = read_intent(answer)
                text, intent = answer, replace(chosen, paths=chosen.paths or intent.paths)
            else:
                feedback.append(answer)
    return DemoTaskWithTurns(intent, text, tuple(feedback), thread)


def _continues_task(turn: DemoTurn) -> bool:
    """Return whether `turn` continues an earlier request: feedback on a denial, a decision alone, or "continue"."""
    kind, denied = read_intent(turn.text).kind, turn.has_note("denied")
    return not turn.text or kind == "continue" or (denied and (kind == "other" or turn.has_note("own_words")))
