"""What the diff preview tells: where it is, what came on screen, and what the user wants of its surroundings."""

from dataclasses import dataclass

from textual.message import Message

from widgets.diff.diff_rows import SourceLine


class _Latest(Message):
    """A message of which the newest stands for all."""

    def can_replace(self, message: Message) -> bool:
        """Whether it is of the same kind."""
        return type(message) is type(self)


class ViewMoved(_Latest):
    """The cursor, the scroll position, the layout or the result of a search is another."""


class CameOnScreen(_Latest):
    """Something came on screen for the first time."""


class NothingUnseen(Message):
    """There is no unseen place to go to."""


@dataclass
class HunkClicked(Message):
    """The state of a hunk was clicked."""

    hunk: str


@dataclass
class NoteClicked(Message):
    """A note that can be ticked off was clicked or opened."""

    key: str


@dataclass
class CommentWanted(Message):
    """The user wants to remark on a line."""

    line: SourceLine


class AskWanted(Message):
    """The user wants to see what was asked here, or to ask more."""


class SearchWanted(Message):
    """The user wants to search."""


class OrderWanted(Message):
    """The user wants the files in the other order: by need or by path."""


class FilesWanted(Message):
    """The user wants to go to the list of files, or to see it or not."""


@dataclass
class ExternalDiffWanted(Message):
    """The user wants to see a file as their own diff program shows it."""

    proposal: str
    path: str


class ComparisonWanted(Message):
    """The user wants to see the earlier version against this one, or to go back."""
