"""Arguments and text in a form that any JSON parser takes: history with broken arguments is fatal on some servers."""

import json
import math
from typing import Any


def arguments_text(arguments: dict[str, Any] | None) -> str:
    """A JSON object; `{}` for arguments that never were one."""
    if not arguments:
        return "{}"
    try:
        return replace_surrogates(json.dumps(arguments, ensure_ascii=False, allow_nan=False))
    except (ValueError, TypeError):
        return replace_surrogates(json.dumps(_plain(arguments, 0), ensure_ascii=False))
    except RecursionError:
        return "{}"


def replace_surrogates(text: str) -> str:
    """The text, with half surrogate pairs replaced, since UTF-8 cannot hold them."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace").decode("utf-8")
    return text


def _plain(value: Any, depth: int) -> Any:
    """What JSON can hold: NaN and infinities become null, foreign values their text, deep nests are cut."""
    if depth > 50:
        return None
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else None
        case dict():
            return {str(key): _plain(item, depth + 1) for key, item in value.items()}
        case list() | tuple():
            return [_plain(item, depth + 1) for item in value]
    return str(value)
