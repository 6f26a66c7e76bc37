"""Tables of the configuration for servers, hooks, prices and models."""

import json
import re
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator


class ServerTable(BaseModel):
    """An MCP server: a program or an address; with neither, it changes a server that another file names."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    command: str = ""
    """The program, by path or by name."""
    args: tuple[str, ...] = ()
    """The arguments of the program."""
    env: dict[str, str] = Field(default_factory=dict)
    """Variables besides the usual, which hold no secret; `${NAME}` stands for one of signoff's own."""
    cwd: str = ""
    """The folder in which the program runs; the workspace if empty."""
    url: str = ""
    """The address of a server that speaks Streamable HTTP."""
    headers: dict[str, str] = Field(default_factory=dict)
    """More headers of each request; `${NAME}` as in `env`."""
    client_id: str = ""
    """The OAuth client id of signoff at this server; signoff registers itself if empty."""
    enabled: bool = True
    """Whether the server is started or connected to."""
    timeout: float = Field(default=60, gt=0, le=3600)
    """Seconds that one call may take."""
    start_timeout: float = Field(default=60, gt=0, le=3600)
    """Seconds until the server has listed its tools."""
    writable: tuple[str, ...] = ()
    """What it may write outside the workspace, besides what commands may."""
    layer: bool = True
    """Whether it runs on a layer over the workspace; without, it can write to the files directly."""

    @model_validator(mode="after")
    def _one_way(self) -> "ServerTable":
        if self.command and self.url:
            raise ValueError("it has either a command or a url, not both")
        return self


HookEventName = Literal["staged", "decided", "turn_ended", "question"]


class HookTable(BaseModel):
    """A command that runs on events, and the events that it runs on."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    on: HookEventName
    """A proposal was staged, whoever made it; the user decided; control is back with the user; the model asks."""
    run: str = Field(min_length=1)
    """For `sh`, in the workspace; the event is on its standard input, as one JSON document."""
    seconds: float = Field(default=30, gt=0, le=600)
    """Its time limit."""


FILES = "{files}"
TESTS = "{tests}"
_ESCAPED = re.compile(r"\\(\{files\}|\{tests\}|.?)", re.DOTALL)
_INERT = re.compile(r"\\(\{files\}|\{tests\}|.?)|'[^']*'?|<<<", re.DOTALL)
"""What opens nothing, outside of quotes."""
_COMMENT = re.compile(r"(?<![^\s;&|()])#[^\n]*")
_HERE = re.compile(r"<<(?P<dash>-?)[ \t]*(?P<end>(\\.|'[^'\n]*'|\"[^\"\n]*\"|[^\s;&|<>()'\"\\])+)")
_LINE = re.compile(r"[^\n]*\n|[^\n]+")


def validate_placeholders(command: str) -> str:
    """Return the command; refuse `{files}` and `{tests}` inside quotes, backquotes, a here-document, or escaped.

    Raises:
        ValueError: one is.
    """
    for placeholder in (FILES, TESTS):
        if placeholder in command:
            _validate_place(command, placeholder)
    return command


def _validate_place(command: str, placeholder: str) -> None:
    """Raise ValueError if a placeholder is in a place where its value would be quoted twice, or not as words."""
    opened = [""]
    """The innermost last: `"`, a backquote, or a parenthesis, in which quotes begin anew."""
    documents: list[re.Match[str]] = []
    at = 0
    while at < len(command):
        quoted = opened[-1] == '"'
        if command.startswith(placeholder, at):
            part, misplaced = placeholder, quoted or "`" in opened
        elif match := (_ESCAPED if quoted else _INERT).match(command, at):
            part, misplaced = match[0], placeholder in match[0]
        elif not quoted and (match := _COMMENT.match(command, at)):
            part, misplaced = match[0], False
        elif not quoted and (match := _HERE.match(command, at)):
            part, misplaced = match[0], False
            documents.append(match)
        elif not quoted and documents and command[at] == "\n":
            part = "\n" + _heredoc_bodies(command[at + 1 :], documents)
            misplaced = placeholder in part
            documents.clear()
        else:
            part, misplaced = "$(" if command.startswith("$(", at) else command[at], False
            _open_or_close(opened, part)
        if misplaced:
            raise ValueError(
                f"{placeholder} is quoted already, so not within quotes; write: sh -c 'lint \"$@\"' sh {placeholder}"
            )
        at += len(part)


def _open_or_close(opened: list[str], part: str) -> None:
    if part == opened[-1] or (part, opened[-1]) == (")", "("):
        opened.pop()
    elif part == "$(" or (part == "(" and opened[-1] != '"'):
        opened.append("(")
    elif part in ('"', "`"):
        opened.append(part)


def _heredoc_bodies(text: str, documents: list[re.Match[str]]) -> str:
    """The beginning of a text that is these here-documents, one after the other."""
    lines = iter(_LINE.findall(text))
    taken = ""
    for document in documents:
        end = re.sub(r"[\\'\"]", "", document["end"])
        for line in lines:
            taken += line
            if end == (line.lstrip("\t") if document["dash"] else line).removesuffix("\n"):
                break
    return taken


Effort = Literal["off", "none", "minimal", "low", "medium", "high", "xhigh", "max"]
"""How much the model is to reason: `off` says nothing of it, `none` asks for none."""
ChosenWire = Literal["auto", "chat", "anthropic", "responses"]
"""The protocol: chat completions, Anthropic messages or Responses; `auto` is the one that fits the address."""
MIN_WINDOW_TOKENS = 1_000
"""Tokens; in less there is no conversation."""
_ENDING = re.compile(r"\[([^][]*\])\Z")


class PriceTable(BaseModel):
    """Prices of a model in US dollars per million tokens: an entry of the `[price]` table."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, defer_build=True)

    input: float = Field(ge=0)
    """Tokens that the model reads."""
    output: float = Field(ge=0)
    """Tokens that the model writes."""
    cached: float | None = Field(default=None, ge=0)
    """Input that came from a cache; as `input` if it is left out."""
    cache_write: float | None = Field(default=None, ge=0)
    """Input that was written to a cache; as `input` if it is left out."""


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
"""Fields of a request that are signoff's on one wire or another: what is said in it, and what may be called."""


def _addable(fields: dict[str, Any]) -> dict[str, Any]:
    """Fields that may be added to a request."""
    if own := sorted(fields.keys() & OWN_FIELDS):
        raise ValueError(f"{own[0]} is signoff's own field of a request; take it out")
    if also := sorted(fields.keys() & {"model", "reasoning_effort"}):
        raise ValueError(f"{also[0]} is a setting of its own; write it above the tables")
    try:
        json.dumps(fields, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise ValueError("a request holds no dates, and no numbers that are none") from error
    return fields


RequestFields = Annotated[dict[str, Any], AfterValidator(_addable)]
"""The `[request]` table."""


class ModelTable(BaseModel):
    """Settings for the models of one name or pattern; None leaves a general setting as it is."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    reasoning_effort: Effort | None = None
    """As the general setting."""
    context_window: int | None = Field(default=None, ge=MIN_WINDOW_TOKENS)
    """Tokens, as the general setting."""
    wire: ChosenWire | None = None
    """As the general setting."""
    price: PriceTable | None = None
    """The price of these models: `input`, `output`, `cached`, `cache_write`."""
    request: RequestFields = Field(default_factory=dict)
    """Overrides the general `[request]`, field by field."""
    profile: dict[str, Any] = Field(default_factory=dict)
    """Overrides the general `[profile]`, field by field."""


class ReadingTable(BaseModel):
    """The `[reading]` table: how many lines may wait unread."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    unseen_lines: int | None = Field(default=None, ge=1)
    """Changed lines that may wait unread; while more do, agents, patches and the model stage nothing."""
    pace: bool = False
    """Whether the status bar says how long the unread lines take at your own pace, which no record ever holds."""


def matching_patterns(model: str, patterns: Iterable[str]) -> list[str]:
    """Return the patterns that match a model's name, most specific first: the name itself, then the longest.

    They are those of `fnmatch`, but that brackets at the end stand for themselves: names of models end so (`[1m]`).
    """
    found = [
        pattern for pattern in patterns if pattern == model or fnmatchcase(model, _ENDING.sub(r"[[]\1", pattern))
    ]
    return sorted(found, key=lambda pattern: (pattern != model, -_literal_length(pattern)))


def is_pattern(name: str) -> bool:
    """Return whether a name has wildcards."""
    return _literal_length(name) < len(name)


def merge_model_tables(model: str, tables: Mapping[str, ModelTable]) -> ModelTable:
    """Return the settings of a model: of all matching tables, the more specific one wins."""
    said: dict[str, Any] = {}
    for pattern in reversed(matching_patterns(model, tables)):
        for key in tables[pattern].model_fields_set:
            value = getattr(tables[pattern], key)
            if value is not None:
                said[key] = merge_tables(said.get(key, {}), value) if isinstance(value, Mapping) else value
    return ModelTable.model_construct(**said)


def merge_tables(fields: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields merged with more: tables of the same name are joined, other values replaced."""
    result = dict(fields)
    for name, value in more.items():
        before = result.get(name)
        if isinstance(before, Mapping) and isinstance(value, Mapping):
            value = merge_tables(before, value)
        result[name] = value
    return result


def _literal_length(pattern: str) -> int:
    return len(re.sub(r"[*?]", "", pattern))
