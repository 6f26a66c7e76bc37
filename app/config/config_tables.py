"""Tables of the configuration for servers, hooks, prices and models."""

import json
import re
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StrictBool, StrictFloat, StrictInt, model_validator


class McpServerTable(BaseModel):
    """An MCP server: a program or an address; with neither, it changes a server that another file defines."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    command: str = ""
    """The program: a path or a name."""
    args: tuple[str, ...] = ()
    """The arguments of the program."""
    env: dict[str, str] = Field(default_factory=dict)
    """Variables besides the usual ones, which contain no secrets; `${NAME}` inserts one of signoff's variables."""
    cwd: str = ""
    """The folder in which the program runs; the workspace if empty."""
    url: str = ""
    """The address of a server that uses Streamable HTTP."""
    headers: dict[str, str] = Field(default_factory=dict)
    """Further headers of each request; `${NAME}` as in `env`."""
    client_id: str = ""
    """The OAuth client id of signoff at this server; if empty, signoff registers itself."""
    enabled: StrictBool = True
    """Whether the server is started or connected to."""
    timeout: StrictFloat = Field(default=60, gt=0, le=3600)
    """Time limit of one call, in seconds."""
    start_timeout: StrictFloat = Field(default=60, gt=0, le=3600)
    """Time limit from the start of the server to its list of tools, in seconds."""
    writable: tuple[str, ...] = ()
    """Paths outside the workspace that it may write, besides those that commands may write."""
    layer: StrictBool = True
    """Whether it runs on a layer over the workspace; if not, it can write the files directly."""

    @model_validator(mode="after")
    def _check_single_transport(self) -> "McpServerTable":
        if self.command and self.url:
            raise ValueError("it has either a command or a url, not both")
        return self


HookEventName = Literal["staged", "decided", "turn_ended", "question"]


class EventHookTable(BaseModel):
    """A command that runs on an event."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    on: HookEventName
    """The event: a proposal was staged, by anyone; the user decided; control is back with the user; the model
    asks."""
    run: str = Field(min_length=1)
    """The command, for `sh`, in the workspace; it gets the event on standard input, as one JSON document."""
    seconds: StrictFloat = Field(default=30, gt=0, le=600)
    """Time limit in seconds."""


FILES = "{files}"
TESTS = "{tests}"
_ESCAPE_IN_QUOTES = re.compile(r"\\(\{files\}|\{tests\}|.?)", re.DOTALL)
_INERT_TEXT = re.compile(r"\\(\{files\}|\{tests\}|.?)|'[^']*'?|<<<", re.DOTALL)
"""Text outside quotes that opens nothing: escapes, placeholders, single quotes and here-strings."""
_COMMENT = re.compile(r"(?<![^\s;&|()])#[^\n]*")
_HERE_DOCUMENT = re.compile(r"<<(?P<dash>-?)[ \t]*(?P<end>(\\.|'[^'\n]*'|\"[^\"\n]*\"|[^\s;&|<>()'\"\\])+)")
_LINE = re.compile(r"[^\n]*\n|[^\n]+")


def require_unquoted_placeholders(command: str) -> str:
    """Return the command; raise ValueError if `{files}` or `{tests}` is quoted or escaped in it.

    Raises:
        ValueError: a placeholder is in such a place.
    """
    for placeholder in (FILES, TESTS):
        if placeholder in command:
            _validate_place(command, placeholder)
    return command


def _validate_place(command: str, placeholder: str) -> None:
    """Raise ValueError if the value of a placeholder would be quoted twice there, or not be split into words."""
    opened = [""]
    """Open quotes, backquotes and parentheses, innermost last; in parentheses, quotes start again."""
    documents: list[re.Match[str]] = []
    position = 0
    while position < len(command):
        quoted = opened[-1] == '"'
        if command.startswith(placeholder, position):
            part, misplaced = placeholder, quoted or "`" in opened
        elif match := (_ESCAPE_IN_QUOTES if quoted else _INERT_TEXT).match(command, position):
            part, misplaced = match[0], placeholder in match[0]
        elif not quoted and (match := _COMMENT.match(command, position)):
            part, misplaced = match[0], False
        elif not quoted and (match := _HERE_DOCUMENT.match(command, position)):
            part, misplaced = match[0], False
            documents.append(match)
        elif not quoted and documents and command[position] == "\n":
            part = "\n" + _find_heredoc_bodies(command[position + 1 :], documents)
            misplaced = placeholder in part
            documents.clear()
        else:
            part, misplaced = "$(" if command.startswith("$(", position) else command[position], False
            _update_open_quotes(opened, part)
        if misplaced:
            raise ValueError(
                f"{placeholder} is quoted already, so not within quotes; write: sh -c 'lint \"$@\"' sh {placeholder}"
            )
        position += len(part)


def _update_open_quotes(opened: list[str], part: str) -> None:
    if part == opened[-1] or (part, opened[-1]) == (")", "("):
        opened.pop()
    elif part == "$(" or (part == "(" and opened[-1] != '"'):
        opened.append("(")
    elif part in ('"', "`"):
        opened.append(part)


def _find_heredoc_bodies(text: str, documents: list[re.Match[str]]) -> str:
    """Return the part at the start of a text that consists of these here-documents."""
    lines = iter(_LINE.findall(text))
    bodies = ""
    for document in documents:
        end = re.sub(r"[\\'\"]", "", document["end"])
        for line in lines:
            bodies += line
            if end == (line.lstrip("\t") if document["dash"] else line).removesuffix("\n"):
                break
    return bodies


Effort = Literal["off", "none", "minimal", "low", "medium", "high", "xhigh", "max"]
"""How much the model reasons: `off` leaves the field out of the request, `none` asks for no reasoning."""
ChosenWire = Literal["auto", "chat", "anthropic", "responses"]
"""The protocol: chat completions, Anthropic messages or Responses; `auto` chooses by the address."""
MIN_WINDOW_TOKENS = 1_000
"""Least context window in tokens; a smaller one is too small for a conversation."""
_LITERAL_BRACKETS = re.compile(r"\[([^][]*\])\Z")


class PriceTable(BaseModel):
    """Prices of a model in US dollars per million tokens: an entry of the `[price]` table."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, defer_build=True)

    input: StrictFloat = Field(ge=0)
    """Price of input tokens."""
    output: StrictFloat = Field(ge=0)
    """Price of output tokens."""
    cached: StrictFloat | None = Field(default=None, ge=0)
    """Price of input from a cache; if missing, as `input`."""
    cache_write: StrictFloat | None = Field(default=None, ge=0)
    """Price of input that is written to a cache; if missing, as `input`."""


OWN_FIELDS = frozenset(
    {
        "messages",
        "input",
        "system",
        "instructions",
        "prompt",
        "conversation",
        "previous_response_id",
        "tools",
        "tool_choice",
        "functions",
        "function_call",
        "stream",
    }
)
"""Fields of a request that signoff sets on some wire: the conversation, the tools and streaming."""


def _check_request_fields(fields: dict[str, Any]) -> dict[str, Any]:
    """Return the fields; raise ValueError if they can't be added to a request."""
    if reserved := sorted(fields.keys() & OWN_FIELDS):
        raise ValueError(f"{reserved[0]} is signoff's own field of a request; take it out")
    if separate_settings := sorted(fields.keys() & {"model", "reasoning_effort"}):
        raise ValueError(f"{separate_settings[0]} is a setting of its own; write it above the tables")
    try:
        json.dumps(fields, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise ValueError("a request cannot have dates, inf or nan") from error
    return fields


RequestFields = Annotated[dict[str, Any], AfterValidator(_check_request_fields)]
"""The `[request]` table."""


class ModelOverridesTable(BaseModel):
    """Settings for the models of one name or pattern; None keeps the general setting."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    reasoning_effort: Effort | None = None
    """As the general setting."""
    context_window: StrictInt | None = Field(default=None, ge=MIN_WINDOW_TOKENS)
    """Tokens, as the general setting."""
    wire: ChosenWire | None = None
    """As the general setting."""
    price: PriceTable | None = None
    """The price of these models: `input`, `output`, `cached`, `cache_write`."""
    request: RequestFields = Field(default_factory=dict)
    """Overrides the general `[request]`, field by field."""
    profile: dict[str, Any] = Field(default_factory=dict)
    """Overrides the general `[profile]`, field by field."""


class ReadingBudgetTable(BaseModel):
    """The `[reading]` table: how many changed lines may wait unread, and whether to show the reading time."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    unseen_lines: StrictInt | None = Field(default=None, ge=1)
    """Changed lines that may wait unread; if more wait, agents, patches and the model can stage nothing."""
    pace: StrictBool = False
    """Whether the status bar shows how long the unread lines take at your reading speed, which is in no record."""


def matching_model_patterns(model: str, patterns: Iterable[str]) -> list[str]:
    """Return the patterns that match a model's name: first the name itself, then longer patterns before shorter ones.

    Patterns are those of `fnmatch`, except that brackets at the end are literal, as in names of models (`[1m]`).
    """
    matches = [
        pattern
        for pattern in patterns
        if pattern == model or fnmatchcase(model, _LITERAL_BRACKETS.sub(r"[[]\1", pattern))
    ]
    return sorted(matches, key=lambda pattern: (pattern != model, -_literal_length(pattern)))


def is_wildcard_pattern(name: str) -> bool:
    """Return whether a name has wildcards."""
    return _literal_length(name) < len(name)


def merge_model_tables(model: str, tables: Mapping[str, ModelOverridesTable]) -> ModelOverridesTable:
    """Return the settings of a model, merged from all matching tables; a more specific table wins."""
    merged: dict[str, Any] = {}
    for pattern in reversed(matching_model_patterns(model, tables)):
        for key in tables[pattern].model_fields_set:
            value = getattr(tables[pattern], key)
            if value is not None:
                merged[key] = merge_nested_tables(merged.get(key, {}), value) if isinstance(value, Mapping) else value
    return ModelOverridesTable.model_construct(**merged)


def merge_nested_tables(fields: Mapping[str, Any], overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields merged with `overrides`: tables of the same name are merged, other values replaced."""
    result = dict(fields)
    for name, value in overrides.items():
        former = result.get(name)
        if isinstance(former, Mapping) and isinstance(value, Mapping):
            value = merge_nested_tables(former, value)
        result[name] = value
    return result


def _literal_length(pattern: str) -> int:
    return len(re.sub(r"[*?]", "", pattern))
