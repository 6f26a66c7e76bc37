"""`write_todos`: the model keeps a list of what is to be done, which the user sees.

Kept apart: it has to do with no other tool.
"""

from typing import Annotated

from pydantic import Field

from app.todos import MOST, Todo, current, done
from app.tools.contract import Tool, ToolArguments, ToolContext, ToolOutput


class WriteTodosArguments(ToolArguments):
    """Arguments of `write_todos`."""

    todos: Annotated[list[Todo], Field(max_length=MOST)] = Field(
        description="The whole list, in order, in place of the one before; empty to clear it."
    )


class WriteTodos(Tool):
    """The list is part of the call's result, and so of the log; nothing else keeps it."""

    name = "write_todos"
    kind = "read"
    Arguments = WriteTodosArguments
    description = (
        "Keep a to-do list for work of three or more steps; the user sees it. Write it before you begin, and again "
        "whenever an item begins or is done, always as a whole. It stays when older history is summarised. "
        "Don't use it for a single edit or a question."
    )

    async def run(self, arguments: WriteTodosArguments, context: ToolContext) -> ToolOutput:
        """Take the list."""
        todos = tuple(arguments.todos)
        if not todos:
            return ToolOutput("The list is empty.", "cleared", todos=todos)
        now = current(todos)
        summary = f"{done(todos)} of {len(todos)} done"
        return ToolOutput(f"Kept: {summary}.", f"{summary} · {now.content}" if now else summary, todos=todos)
