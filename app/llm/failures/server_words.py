"""Extract the server's message from an error body of any shape."""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from app.llm.response.response_limits import parse_json

MAX_LINE = 300
"""Characters of a server's message that a user gets to see."""
MAX_TEXT = 32 * 2**10
"""Characters of a body that are searched."""

_ECHOES = frozenset({"input", "failed_generation"})
"""Fields in which a server repeats what it was sent or what the model wrote: not its own words."""

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]+")
_SECRET = re.compile(r"\b(?:sk|gsk|pk|rk|xai|AIza|hf|nvapi|csk|key)[-_][\w*.-]{6,}|\bAIza[\w-]{10,}")
_TITLE = re.compile("<title", re.IGNORECASE)
_NO_TEXT = re.compile(r"<(?:script|style)\b", re.IGNORECASE)
_TAG = re.compile("<[^<>]*>?")
_RULE, _AFTER_EXCERPT = "------", "\nError: "
"""Around the piece of a template that llama.cpp shows before it says what is wrong."""
_DEEPEST = 8
"""Errors in errors that are looked into for their words."""


def parse_body(text: str) -> Any:
    """The body as JSON if it is usable JSON, else the text itself."""
    try:
        return parse_json(text)
    except (ValueError, RecursionError):
        return text


def searchable_text(body: Any) -> str:
    """Return all strings and numbers of a body, keys included, with JSON inside strings opened up."""
    return "\n".join(_strings(body, depth=0))[:MAX_TEXT]


def find_message(body: Any, depth: int = 0) -> str:
    """Return the sentence in a body that is meant for people; empty if there is none."""
    if depth > _DEEPEST:
        return ""
    match body:
        case str():
            return _of_text(body[:MAX_TEXT])
        case list() if body:
            return find_message(body[0], depth + 1)
        case Mapping():
            return _of_mapping(body, depth + 1)
        case _:
            return ""


def safe_line(text: str, secrets: Iterable[str] = ()) -> str:
    """Return untrusted text as one short line without control characters or anything that looks like a key."""
    for secret in secrets:
        if len(secret) >= 4:
            text = text.replace(secret, "***")
    text = _SECRET.sub("***", text)
    line = " ".join(_CONTROL.sub(" ", text).split())
    return line if len(line) <= MAX_LINE else line[: MAX_LINE - 1].rstrip() + "…"


def _of_text(text: str) -> str:
    """A page's title, else what it says without its tags; of a text, what it says."""
    if (found := _TITLE.search(text)) and (title := text[found.end() :].partition(">")[2].partition("</")[0]).strip():
        return title
    if text.lstrip().startswith("<"):
        before, *later = _NO_TEXT.split(text)
        return _TAG.sub(" ", " ".join([before, *(piece.partition("</")[2].partition(">")[2] for piece in later)]))
    before, rule, after = text.partition(_RULE)
    excerpt, said, words = after.rpartition(_AFTER_EXCERPT)
    is_rule = rule and said and f"{excerpt}\n".lstrip("-").lstrip(" \t\r").startswith("\n")
    return f"{before.rstrip()} {words}" if is_rule else text


def _of_mapping(body: Mapping[str, Any], depth: int) -> str:
    error = body.get("error")
    if isinstance(error, Mapping):
        # OpenRouter: "Provider returned error", and the provider's own words as JSON text.
        metadata = error.get("metadata")
        if isinstance(metadata, Mapping) and isinstance(raw := metadata.get("raw"), str) and raw.strip():
            nested = find_message(parse_body(raw), depth)
            if nested:
                return nested
        return find_message(error, depth)
    if isinstance(error, str) and error:
        description = body.get("error_description")
        return f"{error}: {description}" if isinstance(description, str) else error
    for key in ("message", "detail", "msg", "error_description", "title"):
        value = body.get(key)
        if isinstance(value, str) and value:
            nested_body = parse_body(value) if value.lstrip().startswith("{") else value
            return find_message(nested_body, depth) or value
        if isinstance(value, list | Mapping) and value:
            return _details(value)
    return ""


def _details(value: Any) -> str:
    """FastAPI's list of validation errors, or one object."""
    lines = []
    for item in value if isinstance(value, list) else [value]:
        if isinstance(item, Mapping):
            where = ".".join(str(step) for step in item.get("loc") or ())
            words = str(item.get("msg") or item.get("message") or "")
            lines.append(f"{where}: {words}" if where else words)
        else:
            lines.append(str(item))
    return "; ".join(line for line in lines if line)


def _strings(value: Any, depth: int) -> Iterator[str]:
    if depth > 12:
        return
    match value:
        case str():
            yield value
            if value[:1] in "{[" and value.strip() and not isinstance(opened := parse_body(value), str):
                yield from _strings(opened, depth + 1)
        case bool() | None:
            return
        case int() | float():
            yield str(value)
        case Mapping():
            for key, item in value.items():
                if key in _ECHOES:
                    continue
                if isinstance(item, int | float) and not isinstance(item, bool):
                    yield f"{key}={item}"
                else:
                    yield str(key)
                    yield from _strings(item, depth + 1)
        case list():
            for item in value:
                yield from _strings(item, depth + 1)
