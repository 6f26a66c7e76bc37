"""What the tools of agents that write or change text make of files, byte for byte.

The agents have the same two tools under different names: one that writes a whole file and one that replaces a text.
They differ in what they do with line endings, byte order marks and the last line; a description says which. Where an
agent finds a text that is there only nearly, the call is refused: it is never applied to a guess.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from app.doors.hook.errors import NotStaged, text_of, unknown_place

if TYPE_CHECKING:
    from app.doors.hook.files import TurnFiles

Arguments = Mapping[str, Any]
_LOOKED_AT = 4096
"""Characters from which most agents detect the line endings of a file."""
_MARK = "\ufeff"


def has_crlf(text: str) -> bool:
    """Whether a text has any CRLF."""
    return "\r\n" in text


def has_mostly_crlf(text: str) -> bool:
    """Whether most lines at the beginning of a text end with CRLF."""
    head = text[:_LOOKED_AT]
    both = head.count("\r\n")
    return both > head.count("\n") - both


def has_only_crlf(text: str) -> bool:
    """Whether all lines of a text end with CRLF."""
    return has_crlf(text) and "\n" not in text.replace("\r\n", "").replace("\r", "\n")


class WholeFile(NamedTuple):
    """A tool that writes a whole file."""

    path: str = "file_path"
    """Name of the argument; so are `content` and `mode`."""
    content: str = "content"
    mode: str = ""
    """`append` as its value adds to the end of the file."""
    only_new: bool = False
    """Whether it refuses a file that exists."""
    keeps_crlf: bool = False
    """Whether it gives CRLF to all lines if the file that exists has one."""
    keeps_mark: bool = False
    """Whether a byte order mark of the file that exists stays."""
    ends_line: bool = False
    """Whether it ends the last line."""

    def apply(self, files: "TurnFiles", arguments: Arguments) -> None:
        """Write the file; raises NotStaged."""
        path, content = text_of(arguments, self.path), text_of(arguments, self.content)
        data = files.read(path)
        if self.only_new and data is not None:
            raise NotStaged(f"{path} exists; this tool makes new files only.")
        if self.mode and arguments.get(self.mode) == "append":
            files.write(path, (data or b"") + content.encode())
            return
        if self.ends_line and not content.endswith("\n"):
            content = f"{content}\n"
        if self.keeps_crlf and data is not None and b"\r\n" in data:
            content = _with_crlf(content)
        if self.keeps_mark and data is not None and data.startswith(_MARK.encode()):
            content = _MARK + content.removeprefix(_MARK)
        files.write(path, content.encode())


class AgentReplacement(NamedTuple):
    """A tool that replaces a text in a file."""

    path: str = "file_path"
    """Name of the argument; so are the next four."""
    old: str = "old_string"
    new: str = "new_string"
    everywhere: str = "replace_all"
    """True as its value replaces the text in all places."""
    expected: str = ""
    """The number of places that the call expects, by default one."""
    edits: str = ""
    """Name of the argument with a list of replacements, done one after the other, all or none."""
    uses_crlf: Callable[[str], bool] = has_crlf
    """Whether new lines in a file of this text end with CRLF."""
    changes_all_endings: bool = True
    """Whether all lines of the file get that ending; else only those of the new text."""
    takes_text_as_it_is: bool = False
    """Whether CRLF in the texts of the call stays where the file has LF."""
    takes_line_end: bool = False
    """Whether it takes the end of a line away with the last text of the line."""
    makes_new: bool = True
    """Whether an empty old text makes a new file."""
    fills_blank: bool = False
    """Whether an empty old text replaces a file of white space."""
    drops_mark: bool = False
    """Whether a byte order mark is lost."""

    def apply(self, files: "TurnFiles", arguments: Arguments) -> None:
        """Write the file with the text replaced; raises NotStaged."""
        path = text_of(arguments, self.path)
        each = arguments[self.edits] if self.edits else [arguments]
        data = files.read(path)
        raw = files.text(path) if data is not None else ""
        crlf = self.uses_crlf(raw)
        text = _with_lf(raw) if self.changes_all_endings else raw
        for one in each:
            old, new = (self._with_endings(text_of(one, key), crlf=crlf) for key in (self.old, self.new))
            text = self._replaced(path, data is not None, text, old, new, one)
        if self.changes_all_endings and crlf:
            text = _with_crlf(text)
        files.write(path, (text.removeprefix(_MARK) if self.drops_mark else text).encode())

    def _with_endings(self, text: str, *, crlf: bool) -> str:
        """A text of the call as it is looked for in the file, or put there."""
        if self.changes_all_endings:
            return text if self.takes_text_as_it_is else _with_lf(text)
        return _with_crlf(text) if crlf else text

    def _replaced(self, path: str, exists: bool, text: str, old: str, new: str, arguments: Arguments) -> str:
        if not old:
            if (exists or not self.makes_new) and not (exists and self.fills_blank and not text.strip()):
                raise NotStaged(
                    f"{path} exists; an empty {self.old} makes new files only."
                    if exists
                    else f"{path} does not exist, and {self.old} is empty."
                )
            return new
        if not exists and not text:
            raise NotStaged(f"{path} does not exist.")
        found = text.count(old)
        if not found or not self._is_meant(arguments, found):
            raise unknown_place(path, self.old, found)
        if self.takes_line_end and not new and not old.endswith("\n") and f"{old}\n" in text:
            old = f"{old}\n"
        return text.replace(old, new)

    def _is_meant(self, arguments: Arguments, found: int) -> bool:
        """Whether the call expects that many places."""
        if self.everywhere and arguments.get(self.everywhere):
            return True
        return found == int((self.expected and arguments.get(self.expected)) or 1)


def _with_lf(text: str) -> str:
    return text.replace("\r\n", "\n")


def _with_crlf(text: str) -> str:
    return _with_lf(text).replace("\n", "\r\n")
