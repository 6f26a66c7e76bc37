"""Why an edit was refused: messages that a model reads before its second try.

A refusal is the normal answer to an edit that can't be placed beyond doubt. The text is for the model, so it says
what was looked for, where it nearly matched, and what to send instead; it never exceeds `MESSAGE_LIMIT` bytes.
"""

MESSAGE_LIMIT = 2_048
"""Bytes of UTF-8 in one message."""

_CUT = "\n[cut]"


def shorten_bytes(text: str, limit: int = MESSAGE_LIMIT) -> str:
    """The text, cut at a character boundary so that it fits into `limit` bytes of UTF-8 with a mark at the end."""
    data = text.encode("utf-8", "replace")
    if len(data) <= limit:
        return data.decode("utf-8")
    return data[: limit - len(_CUT)].decode("utf-8", "ignore") + _CUT


class EditRefused(Exception):
    """An edit that was not made."""

    def __init__(self, fact: str, advice: str = "") -> None:
        """Refuse.

        Args:
            fact: Why, for whoever reads it.
            advice: What only a model can use: the nearest text of the file, how to ask again.
        """
        super().__init__(shorten_bytes(f"{fact} {advice}" if advice else fact))
        self.fact = fact
        self.advice = advice

    @property
    def message(self) -> str:
        """The text for the model, which tells it what to do next."""
        return str(self.args[0])


class NoMatch(EditRefused):
    """The text to replace is not in the file, not even by a tolerant rung."""


class AmbiguousMatch(EditRefused):
    """Several places match equally well."""


class AlreadyApplied(EditRefused):
    """The file already reads as the edit wants it."""


class OverlappingEdits(EditRefused):
    """Two edits of one call change the same text."""


class NotEditable(EditRefused):
    """The file can't be edited as text: binary, too large, or the new text has no form in its encoding."""


class ElidedText(EditRefused):
    """The edit stands `...` for text that it does not spell out."""


class MalformedEdit(EditRefused):
    """The edit itself makes no sense: nothing to replace, or nothing changed."""


class MalformedPatch(EditRefused):
    """A patch text of which some part can't be understood."""


class UnsupportedPatch(EditRefused):
    """A patch part of a kind that is not taken: binary, combined, symlink, submodule, copy."""
