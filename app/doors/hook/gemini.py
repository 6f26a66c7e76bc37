"""What Gemini CLI's edit tools make of files, byte for byte, where the text to replace is there exactly."""

from collections.abc import Callable, Mapping
from typing import Any

from app.doors.hook.errors import NotStaged, text_of, unknown_place
from app.doors.hook.files import TurnFiles

Arguments = Mapping[str, Any]


def write_file(files: TurnFiles, arguments: Arguments) -> None:
    """`write_file`: the whole file, with the line endings that it has."""
    path, content = text_of(arguments, "file_path"), text_of(arguments, "content")
    data = files.read(path)
    files.write(path, _with_endings(content, crlf=data is not None and b"\r\n" in data).encode())


def replace(files: TurnFiles, arguments: Arguments) -> None:
    """`replace`: one text, once or everywhere."""
    path = text_of(arguments, "file_path")
    old, new = (text_of(arguments, key).replace("\r\n", "\n") for key in ("old_string", "new_string"))
    data = files.read(path)
    if not old:
        if data is not None:
            raise NotStaged(f"{path} exists; an empty old_string makes new files only.")
        files.write(path, new.encode())
        return
    raw = files.text(path)
    text = raw.replace("\r\n", "\n")
    found = text.count(old)
    if not found or not _meant(arguments, found):
        raise unknown_place(path, "old_string", found)
    everywhere = found > 1
    files.write(path, _with_endings(text.replace(old, new, -1 if everywhere else 1), crlf="\r\n" in raw).encode())


TOOLS: Mapping[str, Callable[[TurnFiles, Arguments], None]] = {"write_file": write_file, "replace": replace}


def _meant(arguments: Arguments, found: int) -> bool:
    """Whether the call expects that many matches."""
    if arguments.get("allow_multiple"):
        return True
    return found == int(arguments.get("expected_replacements") or 1)


def _with_endings(text: str, *, crlf: bool) -> str:
    text = text.replace("\r\n", "\n") if crlf else text
    return text.replace("\n", "\r\n") if crlf else text
