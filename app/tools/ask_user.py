"""`ask_user`: the model asks, and the turn is over until the user answers.

Kept apart: the only tool that never runs.
"""

from pydantic import Field

from app.tools.contract import Tool, ToolArguments, ToolContext, ToolError, ToolOutput


class AskUserArguments(ToolArguments):
    """Arguments of `ask_user`."""

    question: str = Field(min_length=1, description="The question, with what the user needs to know to answer it.")
    options: list[str] | None = Field(
        default=None, max_length=9, description="Answers to choose from; the user can also write another."
    )


class AskUser(Tool):
    """Only describes the call: the loop turns it into a question, and the user's answer becomes its result."""

    name = "ask_user"
    kind = "ask"
    Arguments = AskUserArguments
    description = (
        "Ask the user a question and stop. The user's answer is the result of the call. Use it when the decision is "
        "the user's or when you can't go on without knowing; make it the only call of the response."
    )

    async def run(self, arguments: AskUserArguments, context: ToolContext) -> ToolOutput:
        """Never reached: a question has no result but the user's answer."""
        raise ToolError("A question is answered by the user.")
