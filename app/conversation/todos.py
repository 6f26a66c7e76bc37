"""The model's to-do list: what the tool takes, the log keeps, a compaction spares and the screen shows.

Kept apart: tools, conversation and widgets speak of it, and none of them may know the others.
"""

from collections.abc import Sequence
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

MOST = 50
"""Items of a list."""


class Todo(BaseModel):
    """One thing to do."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    content: str = Field(min_length=1, max_length=300, description="What is to be done, in a few words.")
    status: Literal["pending", "in_progress", "completed"] = Field(description="One item at most is in_progress.")


def done(todos: Sequence[Todo]) -> int:
    """How many are completed."""
    return sum(todo.status == "completed" for todo in todos)


def current(todos: Sequence[Todo]) -> Todo | None:
    """What the model is at, or else what comes next; None where nothing is left."""
    left = [todo for todo in todos if todo.status != "completed"]
    return next((todo for todo in left if todo.status == "in_progress"), left[0] if left else None)
