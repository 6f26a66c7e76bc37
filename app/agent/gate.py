"""Gate: decides whether the model may call tools, as a fold over the log.

The gate closes when a turn has staged as many proposals as the policy allows, or when the user's reading budget has
no room for an edit. It opens when a turn starts (`TurnStarted`) or when the user decides on a proposal while no turn
runs. A decision during a turn takes effect at the end of the turn. No other event changes the gate: after a crash its
state is the same as before.
"""

from typing import Literal

from msgspec import Struct

from app.conversation.events import (
    DecisionKind,
    Event,
    ProposalDecided,
    ProposalStaged,
    RequestSent,
    ToolResult,
    TurnEnded,
    TurnStarted,
)


class UnansweredFeedback:
    """Fold over the denied proposals whose feedback the model has not answered yet."""

    def __init__(self) -> None:
        self.undelivered = False
        """The latest feedback has not been part of a request that allows tool calls."""
        self.latest = 0
        """Id of the event with the latest feedback."""
        self._unanswered: list[str] = []

    @property
    def unanswered(self) -> tuple[str, ...]:
        """Return the denied proposals that the next proposal may answer, the latest first."""
        return tuple(reversed(self._unanswered))

    def apply(self, event: Event) -> None:
        match event:
            case ProposalDecided():
                self._apply_decision(event)
            case RequestSent(closing=False):
                # In the closing request the model reads the feedback but can do nothing about it.
                self.undelivered = False
            case ProposalStaged() if event.supersedes in self._unanswered:
                self._unanswered.remove(event.supersedes)
            case TurnStarted(cause="message") if not self.undelivered:
                self._unanswered.clear()

    def _apply_decision(self, event: ProposalDecided) -> None:
        has_text = bool(event.feedback.strip() or event.comments)
        if has_text:
            self.undelivered, self.latest = True, event.id
        # A reopened proposal is pending again; its feedback stays in the conversation.
        if event.proposal in self._unanswered and (has_text or event.decision is DecisionKind.REOPENED):
            self._unanswered.remove(event.proposal)
        if has_text and event.decision is DecisionKind.DENIED:
            self._unanswered.append(event.proposal)


_OPENING_DECISIONS = frozenset({DecisionKind.APPROVED, DecisionKind.PARTLY_APPROVED, DecisionKind.DENIED})


class GateClosingPolicy(Struct, frozen=True):
    """When the gate closes, which blocks tool calls: after how many steps of a turn have staged edits."""

    kind: Literal["every-edit", "chain"] = "every-edit"
    chain_steps: int = 3
    """For `chain`: the gate closes after this many staging steps."""

    @property
    def max_staging_steps(self) -> int:
        """Return the number of staging steps after which the gate closes; at least 1."""
        return max(1, self.chain_steps) if self.kind == "chain" else 1


class TurnStagingGate:
    """Blocks a turn's tool calls once it has staged all edits that the policy allows; a fold over the log."""

    def __init__(self, policy: GateClosingPolicy) -> None:
        self.policy = policy
        """May be replaced at any time; also applies to the steps that the running turn has staged."""
        self._staged_ids: list[str] = []
        self._paths: list[str] = []
        self.unread = 0
        """Unread lines because of which an edit of this turn was refused; 0 if none was."""
        self.turn_runs = False
        """Whether the log has a turn that started and has not ended."""
        self._decided_during_turn = False
        """The user has decided on a proposal since the turn staged its last edit."""

    @property
    def is_closed(self) -> bool:
        """Return whether tools are blocked now."""
        return bool(self.unread) or len(self._staged_ids) >= self.policy.max_staging_steps

    @property
    def steps_left(self) -> int:
        """Return how many steps of this turn may still stage edits."""
        return max(0, self.policy.max_staging_steps - len(self._staged_ids))

    @property
    def staged_proposals(self) -> tuple[str, ...]:
        """Return the proposals that this turn has staged, one per staging step."""
        return tuple(self._staged_ids)

    @property
    def staged_paths(self) -> tuple[str, ...]:
        """Return the files that the proposals of this turn change."""
        return tuple(dict.fromkeys(self._paths))

    def apply(self, event: Event) -> None:
        match event:
            case TurnStarted():
                self.turn_runs = True
                self._reopen()
            case TurnEnded():
                self.end_turn()
            case ProposalDecided(decision=decision) if decision in _OPENING_DECISIONS:
                self._decided_during_turn = self.turn_runs
                if not self.turn_runs:
                    self._reopen()
            case ToolResult(unread=unread) if unread:
                self._decided_during_turn = False
                self.unread = unread
            case ProposalStaged():
                self._decided_during_turn = False
                self._staged_ids.append(event.proposal)
                self._paths += [file.path for file in event.files]

    def end_turn(self) -> None:
        """Set the state to "no turn runs"; also called after a crash during a turn."""
        self.turn_runs = False
        if self._decided_during_turn:
            self._reopen()

    def _reopen(self) -> None:
        self._decided_during_turn = False
        self.unread = 0
        self._staged_ids.clear()
        self._paths.clear()
