"""The model's to-do list, as the tool takes it, the log keeps it and the screen shows it."""

from collections.abc import Sequence
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

MAX_TODOS = 50
"""Items of a list."""


class Todo(BaseModel):
    """One thing to do."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    content: str = Field(min_length=1, max_length=300, description="What is to be done, in a few words.")
    status: Literal["pending", "in_progress", "completed"] = Field(description="One item at most is in_progress.")


def count_done(todos: Sequence[Todo]) -> int:
    """Return how many are completed."""
    return sum(todo.status == "completed" for todo in todos)


def current_or_next_todo(todos: Sequence[Todo]) -> Todo | None:
    """Return the item that the model is working on, or else the next one; None if all are done."""
    left = [todo for todo in todos if todo.status != "completed"]
    return next((todo for todo in left if todo.status == "in_progress"), left[0] if left else None)
