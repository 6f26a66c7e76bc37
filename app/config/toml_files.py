"""Reads TOML in time linear in its length, and the reading limit without checking the other settings."""

import tomllib
from pathlib import Path
from typing import Any

_MAX_DOTS = 100
"""Most dots in one line: the parser's time grows with the square of the parts of a key."""


def parse_toml(content: bytes) -> dict[str, Any]:
    """Return the parsed TOML.

    Raises:
        ValueError: it is not TOML, not UTF-8 (UnicodeDecodeError), or nested too deeply.
    """
    text = content.decode("utf-8")
    for number, line in enumerate(text.split("\n"), 1):
        if line.count(".") > _MAX_DOTS and not line.lstrip().startswith("#"):
            raise ValueError(f"too many dots (at line {number})")
    try:
        return tomllib.loads(text)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def read_unseen_lines_limit(user_file: Path) -> int:
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
