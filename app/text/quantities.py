"""Counts, lists, moves, times and durations as texts: `2 files`, `a, b and 3 more`, `old → new`, `1h30m`."""

import re
import time
from collections.abc import Iterable, Sequence


def format_count(number: int, noun: str) -> str:
    """Return a count with its noun, such as `1 file` or `2 files`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def join_with_and(items: Iterable[str]) -> str:
    """Return items as a list in a sentence, such as `a, b and c`; empty if there are none."""
    *first, last = [*items] or [""]
    return f"{', '.join(first)} and {last}" if first else last


def join_first(items: Sequence[str], limit: int = 3, separator: str = ", ") -> str:
    """Return the first `limit` items, followed by the number of the others: `a, b and 3 more`."""
    more = f" and {len(items) - limit:,} more" if len(items) > limit else ""
    return f"{separator.join(items[:limit])}{more}"


def format_path(path: str, old_path: str) -> str:
    """Return the path of a file; `old → new` if it is renamed."""
    return f"{old_path} → {path}" if old_path else path


def format_time(moment: float) -> str:
    """Return a Unix time as local date and time, to the minute."""
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(moment))


_DURATION = re.compile(r"(?:(?P<h>\d{1,4})h)?(?:(?P<m>\d{1,6})m)?(?:(?P<s>\d{1,7})s)?", re.ASCII)


def parse_duration(text: str) -> float:
    """Return the duration in seconds. Raises ValueError for zero or another format."""
    match = _DURATION.fullmatch(text.strip())
    hours, minutes, seconds = (int(count or 0) for count in match.groups()) if match else (0, 0, 0)
    if not (total := 3600 * hours + 60 * minutes + seconds):
        raise ValueError('a time is written as "90s", "10m" or "1h30m"')
    return float(total)


def format_duration(seconds: float) -> str:
    """Return the duration in whole seconds; at least `1s` if it is positive."""
    total_seconds = max(round(seconds), int(seconds > 0))
    parts = ((total_seconds // 3600, "h"), (total_seconds // 60 % 60, "m"), (total_seconds % 60, "s"))
    return "".join(f"{count}{unit}" for count, unit in parts if count) or "0s"
