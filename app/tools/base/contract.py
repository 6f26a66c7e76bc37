"""The contract of tools: arguments and their JSON schemas, context, output and refusals.

A schema has only what every server and chat template accepts: objects, arrays, scalars, descriptions; no titles,
references, unions with null or defaults. Its bytes are the same in every process.
"""

import difflib
import json
import re
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, TypeVar

from msgspec import Struct
from pydantic import BaseModel, ConfigDict, ValidationError

from app.conversation.todos import Todo
from app.images.image import Image
from app.proposals.files.overlay import OverlayFile
from app.proposals.values.models import EditReport
from app.proposals.values.origin import CommandRecipe
from app.sandbox.captured_changes import FileOrLink, PathChange, WrittenIgnoredPath
from app.tools.base.command_forms import AllowableCommandPattern, AllowableMcpTool
from app.workspace.paths import Workspace

if TYPE_CHECKING:
    from app.proposals.locate.matching import TextReplacement
    from app.proposals.patch.parsed_patch import ParsedPatch


MAX_RESULT_CHARACTERS = 100_000
"""Maximum number of characters of a result that the model gets; tools have lower limits."""

ToolKind = Literal["read", "edit", "ask", "command"]
"""What a call can do: read, stage an edit, ask the user a question, or run a program."""


class ToolError(Exception):
    """The tool failed; the text tells the model why, and what would work."""

    def __init__(self, text: str) -> None:
        super().__init__(escape_surrogates(text))


class ToolCallNotPermitted(Exception):
    """The user denied permission, or no user could be asked; the text is the whole result of the call.

    Args:
        text: A sentence for the model that says what was not done.
        summary: The same for the user, in a few words.
    """

    def __init__(self, text: str, summary: str = "denied by you") -> None:
        self.summary = summary
        super().__init__(text)


class ToolArguments(BaseModel):
    """Base of every tool's arguments; an unknown argument is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


class UnvalidatedMcpToolArguments(BaseModel):
    """Arguments as the model sent them; they are checked against the schema of an MCP server later."""

    model_config = ConfigDict(frozen=True, defer_build=True)

    values: dict[str, Any]


@dataclass(frozen=True, slots=True)
class ToolOutput:
    """Result of a tool call: text and images for the model, one line for the user, and what was read or staged."""

    text: str
    """Result text for the model; always encodable as UTF-8."""
    summary: str
    """One line for the user."""
    reads: dict[str, str] = field(default_factory=dict)
    """Files whose content the model got: workspace path to version (SHA-256 hex)."""
    failed: bool = False
    """Whether the command or tool that ran reported a failure."""
    staged: bool = False
    """Whether the call changed the draft."""
    todos: tuple[Todo, ...] | None = None
    """The new to-do list; None if the call did not change it."""
    images: tuple[Image, ...] = ()
    """Images for the model, if it accepts images; their bytes are stored."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "text", _limit_length(escape_surrogates(self.text)))
        object.__setattr__(self, "summary", escape_surrogates(self.summary))


class PermissionRequest(Struct, frozen=True):
    """A request for the user's permission."""

    kind: Literal["command", "secret", "changes", "server", "ignored"]
    title: str
    """The question in one line."""
    detail: str
    """The exact command, the exact path, or the server's tool with its arguments."""
    folder: str
    """Workspace path of the folder, `.` for the root."""
    notes: tuple[str, ...] = ()
    """What the user should know before allowing it, the most important first."""
    form: AllowableMcpTool | None = None
    """For a server's tool: what a lasting permission covers."""
    direct: bool = False
    """Whether it can write to the user's files without review."""
    only_once: str = ""
    """Why no lasting form covers a command; empty if one may."""


PERMISSION_PURPOSES = {
    "command": "The model wants to run, in",
    "secret": "The model wants to read, in",
    "changes": "The command has changed, in",
    "ignored": "The command has written what git ignores, in",
    "server": "The model wants to call",
}
"""Purpose of a request by its kind; followed by the folder, except for a server."""


class PermissionDuration(StrEnum):
    """How long a permission lasts."""

    ONCE = "once"
    SESSION = "session"
    PROJECT = "project"
    """In this workspace until the user revokes it."""


class PermissionAnswer(Struct, frozen=True):
    """The user's answer to a permission request."""

    allowed: bool
    duration: PermissionDuration = PermissionDuration.ONCE
    form: AllowableCommandPattern | AllowableMcpTool | None = None
    """What a lasting permission covers; None for identical requests only."""
    feedback: str = ""
    """The user's reason for a denial; it is recorded, but the tool does not get it."""
    unasked: str = ""
    """The earlier permission because of which the user was not asked."""
    unattended: str = ""
    """If no user could be asked: what would allow the request, as a clause."""

    def to_rejection(self, denied: str, not_done: str) -> ToolCallNotPermitted:
        """Return the exception for a call that is not allowed.

        Args:
            denied: What the user did not allow, as a sentence for the model.
            not_done: What was not done if no user could be asked, as a clause.
        """
        if not self.unattended:
            return ToolCallNotPermitted(denied)
        return ToolCallNotPermitted(
            f"{not_done}: nobody could be asked to allow it, so this is no decision of the user's "
            f"({self.unattended}). Go on without it, or say in your answer what it is needed for.",
            summary=f"not allowed: {self.unattended}",
        )


class StepEditDraft(Protocol):
    """The edits of one step as tools see them; the methods block: call them on a thread."""

    def ensure_proposal_id(self) -> str:
        """Return the id of the future proposal of these edits; the first call reserves it."""

    @property
    def summaries(self) -> list[str]:
        """Return the model's summaries of its edits."""

    @property
    def ignored(self) -> list[WrittenIgnoredPath]:
        """Return the git-ignored files that commands of the step have written."""

    def read(self, path: str) -> OverlayFile:
        """Return a file with pending edits and the edits of this draft."""

    def added_and_removed_paths(self) -> tuple[set[str], set[str]]:
        """Return the files that exist only with pending edits, and those that pending edits remove."""

    def touched_paths(self) -> set[str]:
        """Return the files whose content pending edits change or add."""

    def edit(self, path: str, replacements: "Sequence[TextReplacement]", version: str = "") -> EditReport:
        """Replace parts of a file; raises EditRefused."""

    def write(self, path: str, content: str) -> EditReport:
        """Create a file or replace its content; raises EditRefused."""

    def delete(self, path: str) -> EditReport:
        """Delete a file; raises EditRefused."""

    def rename(self, path: str, new_path: str) -> EditReport:
        """Move a file; raises EditRefused."""

    def pending_files(self) -> Mapping[str, FileOrLink | None]:
        """Return all files that differ from the disk, pending or in this draft, by path; None for deleted ones."""

    def add_changes(self, changes: Sequence[PathChange], recipe: CommandRecipe | None = None) -> EditReport:
        """Add the files that a command has changed."""

    def undo_add_changes(self) -> None:
        """Undo the latest `add_changes`."""

    def parse_patch(self, text: str) -> "ParsedPatch":
        """Parse a patch without reading any file; raises EditRefused."""

    def apply_patch(self, patch: "ParsedPatch") -> EditReport:
        """Apply a parsed patch to any number of files; raises EditRefused."""


class ToolContext(Struct, frozen=True):
    """Services and settings for a running tool."""

    workspace: Workspace
    draft: StepEditDraft
    output: Callable[[str], None]
    """Shows live output on the screen."""
    confirm: Callable[[PermissionRequest], Awaitable[PermissionAnswer]]
    """Asks the user; returns at once if an earlier permission covers the request."""
    planning: bool = False
    """Plan mode: nothing may be staged or written."""
    hold_ignored: bool = False
    """Whether to ask the user before writing git-ignored files."""
    keep: Callable[[Sequence[bytes]], object] = lambda contents: None
    """Stores the bytes of images; blocks; raises StorageError."""
    waits: Callable[[str], None] = lambda words: None
    """Shows what the call waits for, in a few words; an empty text ends the wait."""
    staging_steps_left: int = 0
    """Number of further steps of this turn that may stage edits, after this one."""


class Tool(ABC):
    """A function that the model can call."""

    name: str
    description: str
    """For the model: what it does, when to use it, what it returns."""
    kind: ToolKind
    Arguments: ClassVar[type[BaseModel]]
    parameters: Mapping[str, Any] | None = None
    """JSON schema of the arguments if not derived from `Arguments`, which is then `UnvalidatedMcpToolArguments`."""

    @abstractmethod
    async def run(self, arguments: Any, context: ToolContext) -> ToolOutput:
        """Execute a call.

        Raises:
            ToolError: The call failed.
            ToolCallNotPermitted: The user denied permission, or no user could be asked.
        """

    def label(self, arguments: BaseModel) -> str:
        """Return the call in a few words for status bar and transcript: the tool's name and main argument."""
        values: dict[str, Any] = dict(arguments)
        first = next((value for value in values.values() if isinstance(value, str) and value), "")
        line = " ".join(first.split())
        return f"{self.name} {line[:77] + '…' if len(line) > 78 else line}".rstrip()


def _limit_length(text: str) -> str:
    """Return the text, cut if it is too long; a last resort, for example for extremely long file names."""
    if len(text) <= MAX_RESULT_CHARACTERS:
        return text
    return f"{text[:MAX_RESULT_CHARACTERS]}\n[{len(text) - MAX_RESULT_CHARACTERS:,} more characters not shown]"


def escape_surrogates(text: str) -> str:
    """Return the text with lone surrogates as backslash escapes, so that it can be encoded as UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode(errors="backslashreplace").decode()
    return text


Model = TypeVar("Model", bound=BaseModel)

_DROPPED_KEYS = {"title", "default", "$defs"}
_KEY_ORDER = ("type", "description", "items", "properties", "required", "additionalProperties")


def arguments_json_schema(model: type[BaseModel]) -> dict[str, Any]:
    """Return the schema of a tool's arguments: always an object with `properties` and no other names."""
    schema = _schema(model)
    plain = _simplify_schema(schema, schema.get("$defs", {}))
    result: dict[str, Any] = {"type": "object", "properties": plain.get("properties", {})}
    if "required" in plain:
        result["required"] = plain["required"]
    result["additionalProperties"] = False
    return result


def _simplify_schema(schema: dict[str, Any], definitions: Mapping[str, Any]) -> dict[str, Any]:
    targets = [kind for kind in schema.get("anyOf", ()) if kind.get("type") != "null"]
    if "$ref" in schema:
        targets = [definitions[schema["$ref"].rpartition("/")[2]]]
    if len(targets) == 1:
        own_keys = {key: value for key, value in schema.items() if key not in ("$ref", "anyOf")}
        return _simplify_schema({**targets[0], **own_keys}, definitions)
    result: dict[str, Any] = {}
    for key, value in sorted(schema.items(), key=lambda item: _key_rank(item[0])):
        if key in _DROPPED_KEYS or (key == "description" and "properties" in schema):
            continue
        match key:
            case "properties":
                result[key] = {name: _simplify_schema(field, definitions) for name, field in value.items()}
            case "items":
                result[key] = _simplify_schema(value, definitions)
            case _:
                result[key] = value
    return result


def _key_rank(key: str) -> int:
    return _KEY_ORDER.index(key) if key in _KEY_ORDER else len(_KEY_ORDER)


def repair_and_validate_arguments(tool: str, model: type[Model], arguments: Mapping[str, Any]) -> Model:
    """Correct harmless mistakes in a call's arguments, such as numbers as text, and validate them.

    Harmless mistakes are corrected: null for "not given", numbers and lists as text.

    Raises:
        ToolError: The arguments are wrong; lists each problem on a line, and the arguments of the tool.
    """
    schema = _schema(model)
    corrected = _correct_arguments(schema, schema.get("$defs", {}), dict(arguments))
    try:
        return model.model_validate(corrected)
    except ValidationError as error:
        known_names = {
            name for part in (schema, *schema.get("$defs", {}).values()) for name in part.get("properties", ())
        }
        problems = [f"- {_describe_problem(item, known_names)}" for item in error.errors(include_url=False)[:8]]
        signature = ", ".join(
            name if field.is_required() else f"{name}?" for name, field in model.model_fields.items()
        )
        raise ToolError(
            f"Nothing ran: the arguments of {tool} are wrong.\n"
            + "\n".join(problems)
            + f"\n{tool} takes: {signature}."
        ) from error


@lru_cache
def _schema(model: type[BaseModel]) -> dict[str, Any]:
    return model.model_json_schema()


def _correct_arguments(
    schema: dict[str, Any], definitions: Mapping[str, Any], arguments: Mapping[str, Any]
) -> dict[str, Any]:
    required = schema.get("required", ())
    return {
        name: _correct_value(schema.get("properties", {}).get(name, {}), definitions, value)
        for name, value in arguments.items()
        if value is not None or name in required
    }


def _correct_value(field: dict[str, Any], definitions: Mapping[str, Any], value: Any) -> Any:
    kinds = [kind for kind in field.get("anyOf", [field]) if kind.get("type") != "null"]
    kind = kinds[0] if kinds else {}
    if kind.get("type") in ("integer", "boolean") and isinstance(value, str):
        return value.strip()
    if kind.get("type") != "array":
        return value
    items = kind.get("items", {})
    if isinstance(value, str):
        value = _parse_list_text(value, wraps_text=items.get("type") == "string")
    if isinstance(value, dict):
        value = [value]
    if "$ref" in items and isinstance(value, list):
        item_schema = definitions[items["$ref"].rpartition("/")[2]]
        return [
            _correct_arguments(item_schema, definitions, item) if isinstance(item, dict) else item for item in value
        ]
    return value


def _parse_list_text(text: str, *, wraps_text: bool) -> Any:
    """Return the list or object in a JSON text; if strings are expected, return other text as a list of one."""
    try:
        value = json.loads(text)
    except ValueError:
        return [text] if wraps_text else text
    if isinstance(value, list | dict):
        return value
    return [text] if wraps_text else text


def _describe_problem(item: Any, known_names: set[str]) -> str:
    where = ".".join(str(step) for step in item["loc"])
    match item["type"]:
        case "missing":
            return f"{where} is missing"
        case "extra_forbidden":
            name = str(item["loc"][-1])
            if name in known_names:
                return f"{where} is not an argument here"
            parts = [part for part in re.split(r"[_-]|(?<=[a-z])(?=[A-Z])", name) if part in known_names]
            close = parts[:1] or difflib.get_close_matches(name.lower(), sorted(known_names), 1, 0.6)
            return f"{where} is not an argument" + (f"; did you mean {close[0]}?" if close else "")
        case _:
            if item["type"] == "value_error":
                return f"{where}: {item['ctx']['error']}"
            given_value = repr(item.get("input"))
            message = item["msg"][:1].lower() + item["msg"][1:]
            return f"{where}: {message}, not {given_value if len(given_value) <= 80 else given_value[:79] + '…'}"
