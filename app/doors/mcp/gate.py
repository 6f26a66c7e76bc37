"""The gate for an agent that uses the MCP server: one proposal, then the user decides.

Kept apart: signoff's own gate is a fold over a session's log, and an agent from outside has none here.
"""

from dataclasses import dataclass

from app.doors.mcp.caller import McpCaller
from app.doors.waiting import DecisionStatus

PLAIN_NO = (
    "Refused, and nothing of this call was staged: the user denied {id} without a reason. End your turn now, and ask "
    "what the change should be."
)
REFUSED = (
    "Refused, and nothing of this call was staged: {id}, which you proposed before, awaits the user's decision. "
    "Nothing that awaits it is on disk. End your turn now and say in a few sentences what {id} does and what to look "
    "at. Don't call tools; don't make the change in another way. proposal_status gives the decision once it is made."
)


@dataclass(slots=True)
class Gate:
    """Closes when a proposal is staged; opens when the user decides on it or writes a new prompt."""

    proposal: str = ""
    """What was staged last."""
    _turn: str = ""

    def shut(self, proposal: str, caller: McpCaller) -> None:
        """Close the gate: `proposal` was staged."""
        self.proposal, self._turn = proposal, caller.turn

    def refusal(self, caller: McpCaller, on_top_of: str, status: DecisionStatus) -> str:
        """Why a call may not stage anything; empty if it may.

        Args:
            caller: Who calls. A turn that is another than that of the last proposal is one that the user has begun.
            on_top_of: What the agent says the user wants more on top of, for one that tells no turns.
            status: The status of the last proposal.
        """
        if caller.turn and caller.turn != self._turn:
            return ""
        if status.decided:
            # A denial without feedback ends the turn; an agent that sends no turn ids may be in the next one.
            return PLAIN_NO.format(id=self.proposal) if status.denied_without_feedback and caller.turn else ""
        if not caller.turn and on_top_of.strip().upper() == self.proposal:
            return ""
        return REFUSED.format(id=self.proposal)
