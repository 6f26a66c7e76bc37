"""Messages of the diff preview."""

from dataclasses import dataclass

from textual.message import Message

from widgets.diff.diff_rows import SourceLine


class _Latest(Message):
    """A message of which only the newest counts."""

    def can_replace(self, message: Message) -> bool:
        """Whether it is of the same kind."""
        return type(message) is type(self)


class ViewMoved(_Latest):
    """The cursor, the scroll position, the layout or the search result has changed."""


class CameOnScreen(_Latest):
    """Some lines were on the screen for the first time."""


class NothingUnseen(Message):
    """There is no unseen place to go to."""


@dataclass
class HunkClicked(Message):
    """The user clicked the state of a hunk."""

    hunk: str


@dataclass
class NoteClicked(Message):
    """The user clicked or opened a note that can be ticked."""

    key: str


@dataclass
class CommentWanted(Message):
    """The user wants to comment on a line."""

    line: SourceLine


class AskWanted(Message):
    """The user wants to ask about the hunk, or to see its thread."""


class SearchWanted(Message):
    """The user wants to search."""


class OrderWanted(Message):
    """The user wants the files in the other order: by risk or by path."""


class FilesWanted(Message):
    """The user wants to focus, show or hide the list of files."""


@dataclass
class ExternalDiffWanted(Message):
    """The user wants to see a file in their own diff program."""

    proposal: str
    path: str


class ComparisonWanted(Message):
    """The user wants to compare with the version before, or to go back."""
