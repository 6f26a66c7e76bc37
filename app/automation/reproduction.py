"""The result of a second run of the command that made a proposal."""

from dataclasses import dataclass
from typing import Literal

from app.proposals.values.origin import CommandRecipe
from app.text.plural import plural

_NAMED = 3
"""Differing files that one line names."""


@dataclass(frozen=True, slots=True)
class Reproduction:
    """The result of running a proposal's command again."""

    proposal: str
    revision: int
    """Of the proposal, after it."""
    recipe: CommandRecipe
    outcome: Literal["same", "differs", "replaced"]
    """`replaced`: the files have moved since the first run, so its result took the place of the proposal's."""
    files: int
    """How many files the run changed."""
    differing: tuple[str, ...]
    """The paths at which it gave something else, sorted."""
    is_same_environment: bool
    """Whether variables and system are those of the first run."""

    @property
    def summary(self) -> str:
        """Return it in one line: `same 412 files, byte for byte`."""
        if self.outcome == "same":
            return f"same {plural(self.files, 'file')}, byte for byte"
        more = f" and {len(self.differing) - _NAMED:,} more" if len(self.differing) > _NAMED else ""
        named = f"{', '.join(self.differing[:_NAMED])}{more}"
        if self.outcome == "replaced":
            return f"run again on the present files: {plural(self.files, 'file')}, new at {named}"
        elsewhere = "" if self.is_same_environment else ", in another environment"
        count = f"{plural(len(self.differing), 'file')} {'differs' if len(self.differing) == 1 else 'differ'}"
        return f"not the same{elsewhere}: {count} ({named})"
