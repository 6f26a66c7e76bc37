"""The model's to-do list: used by the tool, the log and the screen."""

from collections.abc import Sequence
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

MAX_TODOS = 50
"""Maximum number of items of a list."""


class Todo(BaseModel):
    """One item of the to-do list."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    content: str = Field(min_length=1, max_length=300, description="What is to be done, in a few words.")
    status: Literal["pending", "in_progress", "completed"] = Field(description="One item at most is in_progress.")


def count_done(todos: Sequence[Todo]) -> int:
    """Return the number of completed items."""
    return sum(todo.status == "completed" for todo in todos)


def current_or_next_todo(todos: Sequence[Todo]) -> Todo | None:
    """Return the item in progress, or else the first pending one; None if all are completed."""
    left = [todo for todo in todos if todo.status != "completed"]
    return next((todo for todo in left if todo.status == "in_progress"), left[0] if left else None)
