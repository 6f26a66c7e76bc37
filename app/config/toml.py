"""TOML from untrusted authors: parsed in time linear in its length."""

import tomllib
from typing import Any

_MOST_DOTS = 100
"""In one line. The parser's time grows with the square of the parts of a key, which all stand in one line."""


def parse_toml(content: bytes) -> dict[str, Any]:
    """Return the mapping that TOML bytes hold.

    Raises:
        ValueError: they are no TOML, not UTF-8 (UnicodeDecodeError), or nested beyond all need.
    """
    text = content.decode("utf-8")
    for number, line in enumerate(text.split("\n"), 1):
        if line.count(".") > _MOST_DOTS and not line.lstrip().startswith("#"):
            raise ValueError(f"too many dots (at line {number})")
    try:
        return tomllib.loads(text)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
