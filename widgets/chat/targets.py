"""What a tool call works on, in a few words: the "where" of its line in the transcript."""

from collections.abc import Mapping
from typing import Any

VERBS = {
    "read_file": "Read",
    "list_files": "List",
    "search_text": "Search",
    "edit_file": "Edit",
    "write_file": "Write",
    "delete_file": "Delete",
    "rename_file": "Rename",
    "apply_patch": "Patch",
    "ask_user": "Ask",
    "write_todos": "To do",
    "run_command": "Run",
}
"""How the transcript calls a tool; others go by their own name."""


def call_target(name: str, arguments: Mapping[str, Any]) -> str:
    """The target of a call as text from the model: not made safe, not shortened."""

    def get(key: str) -> str:
        value = arguments.get(key)
        return "" if value is None else str(value)

    match name:
        case "read_file":
            start, end = get("start_line"), get("end_line")
            lines = f":{start or '1'}-{end}" if end else f":{start}-" if start else ""
            return get("path") + lines
        case "list_files":
            return " ".join(part for part in (get("path") or ".", get("pattern")) if part)
        case "search_text":
            places = [part for part in (get("path"), get("glob")) if part]
            return f"“{get('pattern')}”" + (f" in {' '.join(places)}" if places else "")
        case "rename_file":
            return f"{get('path')} → {get('new_path')}"
        case "apply_patch":
            names = dict.fromkeys(
                line[6:].strip()
                for line in get("patch").split("\n")
                if line.startswith(("+++ b/", "--- a/")) and line[6:].strip()
            )
            return ", ".join(names)
        case "run_command":
            return get("command")
        case _:
            return get("path") or next((str(value) for value in arguments.values() if isinstance(value, str)), "")
