"""The gate for an agent that uses the MCP server: one proposal, then the user decides.

It is closed once a proposal is staged, and opens when the user decides on it or writes a new prompt. It is computed
from what the store has of the agent's session, so that it holds in the agent's next process too.
"""

from app.doors.mcp.caller import McpCaller
from app.doors.waiting import DecisionStatus
from app.storage.captured import Turn

PLAIN_NO = (
    "Refused, and nothing of this call was staged: the user denied {id} without a reason. End your turn now, and ask "
    "what the change should be."
)
REFUSED = (
    "Refused, and nothing of this call was staged: {id}, which you proposed before, awaits the user's decision. "
    "Nothing that awaits it is on disk. End your turn now and say in a few sentences what {id} does and what to look "
    "at. Don't call tools; don't make the change in another way. proposal_status gives the decision once it is made."
)


def refusal(last: Turn, caller: McpCaller, on_top_of: str, status: DecisionStatus) -> str:
    """Return why a call may not stage anything; empty if it may.

    Args:
        last: The turn in which the agent's session staged its last proposal.
        caller: Who calls. A turn that is another than that of the last proposal is one that the user has begun.
        on_top_of: What the agent says the user wants more on top of, for one that tells no turns.
        status: The status of the last proposal.
    """
    if caller.turn and caller.turn != last.prompt:
        return ""
    if status.decided:
        # A denial without feedback ends the turn; an agent that sends no turn ids may be in the next one.
        return PLAIN_NO.format(id=last.proposal) if status.denied_without_feedback and caller.turn else ""
    if not caller.turn and on_top_of.strip().upper() == last.proposal:
        return ""
    return REFUSED.format(id=last.proposal)
