"""What a server said, in one searchable text and one readable line, from bodies of any shape."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

MAX_LINE = 300
"""Characters of a server's message that a user gets to see."""
MAX_TEXT = 64 * 2**10
"""Characters of a body that are searched."""

_ECHOES = frozenset({"input", "failed_generation"})
"""Fields in which a server repeats what it was sent or what the model wrote: not its own words."""

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]+")
_SECRET = re.compile(r"\b(?:sk|gsk|pk|rk|xai|AIza|hf|nvapi|csk|key)[-_][\w*.-]{6,}|\bAIza[\w-]{10,}")
_TITLE = re.compile(r"<title[^>]*>(.*?)</title>", re.IGNORECASE | re.DOTALL)
_EXCERPT = re.compile(r"\s*-{6,}\s*\n.*\nError: ", re.DOTALL)
"""The piece of a template that llama.cpp shows before it says what is wrong."""
_TAG = re.compile(r"<(script|style)\b.*?</\1>|<[^>]*>", re.IGNORECASE | re.DOTALL)


def parse_body(text: str) -> Any:
    """The body as JSON if it is JSON, else the text itself."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def searchable(body: Any) -> str:
    """All strings and numbers of a body, keys included, with JSON inside strings opened up."""
    return "\n".join(_strings(body, depth=0))[:MAX_TEXT]


def headline(body: Any) -> str:
    """The sentence in a body that is meant for people, or an empty string."""
    if isinstance(body, str):
        body = body[:MAX_TEXT]
    match body:
        case str() if "<" in body and ">" in body and (title := _TITLE.search(body)):
            return title[1]
        case str() if body.lstrip().startswith("<"):
            return _TAG.sub(" ", body)
        case str():
            return _EXCERPT.sub(" ", body)
        case list() if body:
            return headline(body[0])
        case Mapping():
            return _of_mapping(body)
        case _:
            return ""


def one_line(text: str, secrets: Iterable[str] = ()) -> str:
    """Untrusted text as one short line without control characters and without anything that looks like a key."""
    for secret in secrets:
        if len(secret) >= 4:
            text = text.replace(secret, "***")
    text = _SECRET.sub("***", text)
    line = " ".join(_CONTROL.sub(" ", text).split())
    return line if len(line) <= MAX_LINE else line[: MAX_LINE - 1].rstrip() + "…"


def _of_mapping(body: Mapping[str, Any]) -> str:
    error = body.get("error")
    if isinstance(error, Mapping):
        # OpenRouter: "Provider returned error", and the provider's own words as JSON text.
        metadata = error.get("metadata")
        if isinstance(metadata, Mapping) and isinstance(raw := metadata.get("raw"), str) and raw.strip():
            nested = headline(parse_body(raw))
            if nested:
                return nested
        return _of_mapping(error)
    if isinstance(error, str) and error:
        description = body.get("error_description")
        return f"{error}: {description}" if isinstance(description, str) else error
    for key in ("message", "detail", "msg", "error_description", "title"):
        value = body.get(key)
        if isinstance(value, str) and value:
            nested_body = parse_body(value) if value.lstrip().startswith("{") else value
            return headline(nested_body) or value
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
