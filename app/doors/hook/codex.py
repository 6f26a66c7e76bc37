"""Applies a patch as the `apply_patch` of Codex does, byte for byte.

signoff's own engine reads the same format and refuses where the text is there twice; Codex takes the first place
after the one before. What is proposed is what it would have written.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from app.doors.hook.errors import NotStaged

if TYPE_CHECKING:
    from app.doors.hook.files import TurnFiles

_BEGIN, _END = "*** Begin Patch", "*** End Patch"
_ADD, _DELETE, _UPDATE, _MOVE = "*** Add File: ", "*** Delete File: ", "*** Update File: ", "*** Move to: "
_LAST = "*** End of File"
_HEREDOCS = ("<<EOF", "<<'EOF'", '<<"EOF"')
_NAMES = ("command", "input", "patch", "patchText")
"""Names of the argument that has the patch, in one agent or another."""
_LOOK_ALIKES = str.maketrans(
    {
        **dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2015\u2212", "-"),
        **dict.fromkeys("\u2018\u2019\u201a\u201b", "'"),
        **dict.fromkeys("\u201c\u201d\u201e\u201f", '"'),
        **dict.fromkeys("\u00a0\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000", " "),
    }
)
_LOOSER: tuple[Callable[[str], str], ...] = (
    str,
    str.rstrip,
    str.strip,
    lambda line: line.strip().translate(_LOOK_ALIKES),
)
"""Line normalisations, from exact to tolerant; the first that matches counts."""


class CodexHunk(NamedTuple):
    """One hunk of an update."""

    context: str
    """A line above it; empty for none."""
    old: list[str]
    new: list[str]
    at_end: bool


def apply_patch(files: "TurnFiles", arguments: Mapping[str, Any]) -> None:
    """Apply a whole patch, or raise NotStaged."""
    text = next((arguments[key] for key in _NAMES if arguments.get(key)), "")
    lines = _body(str(text[-1] if isinstance(text, list) else text))
    at = 0
    while at < len(lines):
        head = lines[at].strip()
        if head.startswith(_ADD):
            end = _while(lines, at + 1, lambda line: line.startswith("+"))
            files.write(head.removeprefix(_ADD), "".join(f"{line[1:]}\n" for line in lines[at + 1 : end]).encode())
            at = end
        elif head.startswith(_DELETE):
            path = head.removeprefix(_DELETE)
            if files.read(path) is None:
                raise NotStaged(f"The patch was not staged: {path} does not exist.")
            files.write(path, None)
            at += 1
        elif head.startswith(_UPDATE):
            at = _update(files, head.removeprefix(_UPDATE), lines, at + 1)
        elif not head:
            at += 1
        else:
            raise NotStaged(f"The patch was not staged: {head!r} begins no file.")


def _body(text: str) -> list[str]:
    lines = [line.removesuffix("\r") for line in text.strip().split("\n")]
    if lines[0].strip() in _HEREDOCS and lines[-1].strip().endswith("EOF"):
        lines = lines[1:-1]
    if len(lines) < 2 or lines[0].strip() != _BEGIN or lines[-1].strip() != _END:
        raise NotStaged(f"The patch was not staged: it has to begin with {_BEGIN!r} and to end with {_END!r}.")
    return lines[1:-1]


def _while(lines: Sequence[str], at: int, belongs: Callable[[str], bool]) -> int:
    while at < len(lines) and belongs(lines[at]):
        at += 1
    return at


def _update(files: "TurnFiles", path: str, lines: Sequence[str], at: int) -> int:
    target = path
    if at < len(lines) and lines[at].startswith(_MOVE):
        target = lines[at].removeprefix(_MOVE).strip()
        at += 1
    chunks: list[CodexHunk] = []
    while at < len(lines):
        if not lines[at].strip():
            at += 1
        elif lines[at].startswith("***"):
            break
        else:
            chunk, at = _chunk(lines, at, first=not chunks)
            chunks.append(chunk)
    if not chunks:
        raise NotStaged(f"The patch was not staged: it changes nothing in {path}.")
    data = _changed(path, files.text(path), chunks).encode()
    if target != path:
        files.write(path, None)
    files.write(target, data)
    return at


def _chunk(lines: Sequence[str], at: int, *, first: bool) -> tuple[CodexHunk, int]:
    context = ""
    if lines[at] == "@@" or lines[at].startswith("@@ "):
        context = lines[at][3:]
        at += 1
    elif not first:
        raise NotStaged(f"The patch was not staged: a line with @@ was expected, not {lines[at]!r}.")
    old: list[str] = []
    new: list[str] = []
    start = at
    while at < len(lines):
        line = lines[at]
        if line == _LAST:
            if at == start:
                break
            return CodexHunk(context, old, new, at_end=True), at + 1
        sign, rest = line[:1], line[1:]
        if sign in ("", " ", "-"):
            old.append(rest)
        if sign in ("", " ", "+"):
            new.append(rest)
        if sign not in ("", " ", "-", "+"):
            break
        at += 1
    if at == start:
        raise NotStaged("The patch was not staged: a place in it has no lines, or one without a space, + or -.")
    return CodexHunk(context, old, new, at_end=False), at


def _changed(path: str, text: str, chunks: Sequence[CodexHunk]) -> str:
    """Apply all chunks: kept lines keep their endings, new ones get that of the file's first line."""
    whole = [f"{line}\n" for line in text.split("\n")]
    last = whole.pop().removesuffix("\n")
    whole += [last] if last else []
    endings = ["\r\n" if line.endswith("\r\n") else "\n" for line in whole]
    new_ending = endings[0] if "\n" in text else "\n"
    lines = [line.removesuffix("\n").removesuffix("\r") if line.endswith("\n") else line for line in whole]
    if last:
        # What has no ending gets one, as all updates of this agent do.
        endings[-1] = new_ending
    for start, count, put in sorted(_find_places(path, lines, chunks), key=lambda place: place[0], reverse=True):
        lines[start : start + count] = put
        endings[start : start + count] = [new_ending] * len(put)
    return "".join(map("".join, zip(lines, endings, strict=True)))


def _find_places(path: str, lines: Sequence[str], chunks: Sequence[CodexHunk]) -> list[tuple[int, int, list[str]]]:
    """Return for each chunk its first line, the number of lines removed, and the new lines. Raises NotStaged."""
    places: list[tuple[int, int, list[str]]] = []
    at = 0
    for chunk in chunks:
        if chunk.context:
            found = _seek(lines, [chunk.context], at, at_end=False)
            if found is None:
                raise NotStaged(f"The patch was not staged: {path} has no line {chunk.context!r} there.")
            at = found + 1
        if not chunk.old:
            places.append((len(lines) - (1 if lines and lines[-1] == "" else 0), 0, chunk.new))
            continue
        old, new = chunk.old, chunk.new
        found = _seek(lines, old, at, at_end=chunk.at_end)
        if found is None and old[-1] == "":
            # The last line of a file is its end, and often written as an empty one.
            old, new = old[:-1], new[:-1] if new and new[-1] == "" else new
            found = _seek(lines, old, at, at_end=chunk.at_end)
        if found is None:
            quoted = "\n".join(chunk.old)
            raise NotStaged(
                f"The patch was not staged: {path}, as it is on disk, does not have these lines:\n{quoted}"
            )
        places.append((found, len(old), new))
        at = found + len(old)
    return places


def _seek(lines: Sequence[str], wanted: Sequence[str], start: int, *, at_end: bool) -> int | None:
    """Return the first line at or after `start` where these lines match; None if there is none."""
    if not wanted:
        return start
    last = len(lines) - len(wanted)
    for looked_at in _LOOSER:
        sought = [looked_at(line) for line in wanted]
        compared = [looked_at(line) for line in lines]
        for at in range(last if at_end else start, last + 1):
            if compared[at : at + len(sought)] == sought:
                return at
    return None
