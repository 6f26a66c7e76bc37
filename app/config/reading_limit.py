"""The reading budget of the user's file, read without the rest of the configuration: a hook is to answer soon."""

from pathlib import Path

from app.config.toml import parse_toml


def read_reading_limit(user_file: Path) -> int:
    """Return `unseen_lines` of the `[reading]` table; 0 if it is not set.

    Raises:
        ValueError: the file is no TOML, or the value is not a number above 0.
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
