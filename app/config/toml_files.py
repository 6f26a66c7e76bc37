"""Reads TOML in time linear in its length, and the reading limit without checking the other settings."""

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pydantic import ValidationError

_MAX_DOTS = 100
"""Most dots in one line: the parser's time grows with the square of the parts of a key."""


def parse_toml(content: bytes) -> dict[str, Any]:
    """Return the parsed TOML.

    Raises:
        ValueError: it is not TOML, not UTF-8 (UnicodeDecodeError), or nested too deeply.
    """
    text = content.decode("utf-8-sig")
    for number, line in enumerate(text.split("\n"), 1):
        if line.count(".") > _MAX_DOTS and not line.lstrip().startswith("#"):
            raise ValueError(f"too many dots (at line {number})")
    try:
        return tomllib.loads(text)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def read_max_unread_lines(user_file: Path) -> int:
    """Return the user's limit of changed lines that may wait unread (`reading.unseen_lines`); 0 if none is set.

    Raises:
        ValueError: the file is not TOML, or the value is not a number above 0.
        OSError: the file cannot be read.
    """
    if not user_file.is_file():
        return 0
    content = user_file.read_bytes()
    if b"unseen_lines" not in content:
        return 0
    table = parse_toml(content).get("reading", {})
    limit = table.get("unseen_lines", 0) if isinstance(table, dict) else None
    if not isinstance(limit, int) or isinstance(limit, bool) or limit < ("unseen_lines" in table):
        raise ValueError(f"{user_file}: reading.unseen_lines: write a whole number above 0.")
    return limit


_ERROR_TEXTS = {
    "string_type": "write a text in quotes",
    "int_type": "write a whole number",
    "float_type": "write a number",
    "bool_type": "write true or false",
    "bool_parsing": "write true or false",
    "tuple_type": "write a list in brackets",
    "dict_type": "write a table",
    "model_type": "write a table",
    "missing": "this is missing",
    "extra_forbidden": "there is no such setting",
    "string_pattern_mismatch": "such a name can't be used",
    "string_too_short": "this is empty",
}
"""Messages for a wrong value in the terms of TOML, by pydantic's error type."""


def describe_invalid_toml(
    error: "ValidationError", where: str, values: Mapping[str, Any], documentation: str = "docs/configuration.md"
) -> str:
    """Return the first error in the terms of the file, as one sentence.

    Args:
        where: The file, variable or option that has the values.
        documentation: The page that lists the settings.
    """
    first_error = error.errors(include_url=False)[0]
    key, table = _find_key(first_error["loc"], values)
    if first_error["type"] == "extra_forbidden":
        place = f" in {table}" if table else ""
        return f"{where}: there is no setting {key!r}{place}; {documentation} lists them all."
    message = describe_wrong_value(first_error["type"], first_error["msg"])
    if first_error["type"] == "tuple_type" and isinstance(first_error["input"], Mapping):
        message = f"write each as a table under [[{key}]]"
    return f"{where}: {' of '.join(filter(None, (key, table)))}: {message}."


def describe_wrong_value(kind: str, message: str) -> str:
    """Return what is wrong with a value in the terms of TOML, from pydantic's error type and message."""
    message = _ERROR_TEXTS.get(kind) or message.removeprefix("Value error, ")
    return message[0].lower() + message[1:]


def _find_key(location: Sequence[int | str], values: Any) -> tuple[str, str]:
    """Return the key at a location, and the table in an array that contains it: `[[check]] number 2 (tests)`."""
    keys: list[str] = []
    table = ""
    for part in location:
        try:
            values = values[part]
        except (LookupError, TypeError):
            values = None
        if isinstance(part, str):
            keys.append(part)
        elif isinstance(values, Mapping):
            name = values.get("name")
            named = f" ({name})" if isinstance(name, str) and name and name.isprintable() else ""
            keys, table = [], f"[[{'.'.join(keys)}]] number {part + 1}{named}"
        else:
            keys = [f"item {part + 1} of {'.'.join(keys)}"]
    return ".".join(keys).removesuffix(".[key]"), table
