"""What a refusal teaches about the tools of others: that the server does not take the schema of one of them.

A schema comes from an MCP server, and endpoints take different parts of the standard. Without the tool the request is
answered; with it none ever would be. signoff's own tools are never left out.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from app.llm.capabilities.correction import Correction, Rule, changed
from app.llm.capabilities.profile import Profile
from app.llm.capabilities.refused_tools import key_of, name_of
from app.llm.failures.errors import Failure
from app.llm.types import Payload

_MOST = 100
"""Tools that are remembered."""
_PARTS = "__"
"""Stands between the names of a server and its tool, and in none of signoff's own."""
_SCHEMA = re.compile(r"schema|parameters|propert|function_?declarations|\btools?\W{1,4}\d", re.IGNORECASE)
_PLACES = (
    re.compile(r"function_?declarations\W{1,4}(\d{1,4})", re.IGNORECASE),
    re.compile(r"\btools?['\"]?\W{1,4}(\d{1,4})", re.IGNORECASE),
)
"""By number in the list, where it is not named: Gemini's in its one list of functions; Anthropic's and pydantic's."""
_UNDERSTOOD = (400, 422)


def _schema_refused(profile: Profile, failure: Failure, payload: Payload) -> Iterator[Correction]:
    if failure.status not in _UNDERSTOOD or not _SCHEMA.search(failure.text):
        return
    for tool in payload.tools:
        name = name_of(tool)
        if _PARTS in name and re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", failure.text):
            yield _without(profile, [tool], f"The endpoint does not take the schema of {name}")
            return
    at = next((int(found[1]) for place in _PLACES if (found := place.search(failure.text))), len(payload.tools))
    if at >= len(payload.tools) or _PARTS not in (name := name_of(payload.tools[at])):
        return
    yield _without(profile, payload.tools[at : at + 1], f"The endpoint does not take the schema of {name}")
    # Where the next one at this place is refused too, that it was the first one's fault is not to be seen.
    server = name.partition(_PARTS)[0]
    others = [tool for tool in payload.tools if name_of(tool).startswith(f"{server}{_PARTS}")]
    yield _without(profile, others, f"The endpoint does not take the schemas of the server {server}")


def _without(profile: Profile, tools: Sequence[Mapping[str, Any]], problem: str) -> Correction:
    refused = [*profile.refused_tools, *map(key_of, tools)][-_MOST:]
    left_out = "it is left out" if len(tools) == 1 else "its tools are left out"
    name = f"tools:{','.join(map(name_of, tools))}"
    return changed(name, profile, f"{problem}; {left_out}.", refused_tools=refused)


TOOL_RULES: tuple[Rule, ...] = (_schema_refused,)
