"""Changes a JSON text in one place and leaves the rest as it is: order, indentation, comments.

Settings are written by people; a diff of them is to show what changes, and no more.
"""

import json
import re
from typing import NamedTuple

_SPACE = re.compile(r"(?:\s|//[^\n]*|/\*.*?\*/)*", re.DOTALL)
_SCALAR = re.compile(r'"(?:[^"\\]|\\.)*"|[^\s,\[\]{}"/]+')


class JsonNode(NamedTuple):
    """A value in a text."""

    start: int
    end: int
    """After it."""
    members: "dict[str, JsonNode] | None" = None
    """Of an object."""
    items: "tuple[JsonNode, ...] | None" = None
    """Of an array."""
    key_start: int = -1
    """Where its key begins, in an object."""


def parse_json_text(text: str) -> JsonNode:
    """Parse a JSON text, comments allowed; raises ValueError."""
    node, at = _value(text, _skip(text, 0), 0)
    if _skip(text, at) != len(text):
        raise ValueError(f"there is more after the end, from character {at}")
    return node


def value(text: str, node: JsonNode) -> object:
    """The Python value of a node."""
    if node.members is not None:
        return {key: value(text, each) for key, each in node.members.items()}
    if node.items is not None:
        return [value(text, each) for each in node.items]
    return json.loads(text[node.start : node.end])


def with_member(text: str, node: JsonNode, key: str, added: object) -> str:
    """Return the text with one more member at the end of an object."""
    return _with_last(text, node, f"{json.dumps(key)}: ", added, list((node.members or {}).values()))


def with_item(text: str, node: JsonNode, added: object) -> str:
    """Return the text with one more item at the end of an array."""
    return _with_last(text, node, "", added, list(node.items or ()))


def without_part(text: str, holder: JsonNode, gone: JsonNode) -> str:
    """Return the text without one member or item of `holder`, and without its comma."""
    every = list(holder.members.values()) if holder.members is not None else list(holder.items or ())
    at = every.index(gone)
    begins = [each.key_start if each.key_start >= 0 else each.start for each in every]
    if len(every) == 1:
        return text[: holder.start + 1] + text[holder.end - 1 :]
    if at + 1 < len(every):
        return text[: begins[at]] + text[begins[at + 1] :]
    return text[: every[at - 1].end] + text[gone.end :]


def _with_last(text: str, node: JsonNode, key: str, added: object, every: list[JsonNode]) -> str:
    outer = _indent(text, node.start)
    step = _step(text)
    if every:
        first = every[0].key_start if every[0].key_start >= 0 else every[0].start
        between = text[node.start + 1 : first]
        on_lines = "\n" in between
        inner = f"\n{_indent(text, first)}" if on_lines else " "
        at = every[-1].end
        put = _lines(added, inner.removeprefix("\n"), step) if on_lines else json.dumps(added, ensure_ascii=False)
        return f"{text[:at]},{inner}{key}{put}{text[at:]}"
    inner = outer + step
    body = f"\n{inner}{key}{_lines(added, inner, step)}\n{outer}"
    return text[: node.start + 1] + body + text[node.end - 1 :]


def _lines(other: object, indent: str, step: str) -> str:
    return json.dumps(other, indent=step, ensure_ascii=False).replace("\n", f"\n{indent}")


def _indent(text: str, at: int) -> str:
    """The indentation of the line at an offset."""
    start = text.rfind("\n", 0, at) + 1
    found = re.match(r"[ \t]*", text[start:at])
    return found[0] if found else ""


def _step(text: str) -> str:
    """One level of indentation, as the text has it."""
    found = re.search(r"\n([ \t]+)\S", text)
    return found[1] if found else "  "


def _skip(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at


def _value(text: str, at: int, depth: int) -> tuple[JsonNode, int]:
    if depth > 100:
        raise ValueError("it is nested too deep")
    if text[at : at + 1] == "{":
        return _object(text, at, depth)
    if text[at : at + 1] == "[":
        return _array(text, at, depth)
    found = _SCALAR.match(text, at)
    if not found:
        raise ValueError(f"there is no value at character {at}")
    json.loads(found[0])
    return JsonNode(at, found.end()), found.end()


def _object(text: str, start: int, depth: int) -> tuple[JsonNode, int]:
    members: dict[str, JsonNode] = {}
    at = _skip(text, start + 1)
    while text[at : at + 1] != "}":
        key = _SCALAR.match(text, at)
        if not key or not key[0].startswith('"'):
            raise ValueError(f"there is no key at character {at}")
        colon = _skip(text, key.end())
        if text[colon : colon + 1] != ":":
            raise ValueError(f"there is no colon at character {colon}")
        node, after = _value(text, _skip(text, colon + 1), depth + 1)
        members[json.loads(key[0])] = node._replace(key_start=at)
        at = _skip_comma(text, after, "}")
    return JsonNode(start, at + 1, members=members), at + 1


def _array(text: str, start: int, depth: int) -> tuple[JsonNode, int]:
    items: list[JsonNode] = []
    at = _skip(text, start + 1)
    while text[at : at + 1] != "]":
        node, after = _value(text, at, depth + 1)
        items.append(node)
        at = _skip_comma(text, after, "]")
    return JsonNode(start, at + 1, items=tuple(items)), at + 1


def _skip_comma(text: str, at: int, end: str) -> int:
    """Return the offset of the next member or item, or of the closing bracket; raises ValueError."""
    at = _skip(text, at)
    if text[at : at + 1] == ",":
        return _skip(text, at + 1)
    if text[at : at + 1] != end:
        raise ValueError(f"a comma or {end} is missing at character {at}")
    return at
