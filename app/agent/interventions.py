"""Every instruction that the program gives the model, and when it is given.

Each is an event of its own, sent as a system message, and stands in payloads only for as long as it applies
(`Intervention.scope`). What a decision of the user tells the model is worded in `app.conversation.decision_words`.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from app.conversation.events import Intervention, InterventionKind
from app.proposals.text.line_comparison import LineSpan
from app.proposals.values.models import Proposal, ProposalState

DENIALS_BEFORE_ADVICE = 3
"""Denials in a row, with no approval between, after which the model is told to ask instead."""
FILES_NAMED = 20
"""More files than this are counted, not named."""
_PLACES_NAMED = 6
"""More places of one file than this are counted."""


@dataclass(frozen=True, slots=True)
class ChangedFile:
    """A file that differs from what the model has seen."""

    version: str
    """What a read would show (SHA-256 hex); empty for a file that is gone."""
    spans: Sequence[LineSpan] = ()
    """The lines of it that the model does not know, as far as that could be found out."""


@dataclass(frozen=True, slots=True)
class TurnProgress:
    """Progress of a turn, for the notes to a model that does not come to an end."""

    step: int = 0
    """Requests made in the turn."""
    step_limit: int = 0
    repeated: str = ""
    """The call that the turn made most often."""
    times: int = 0
    fruitless_steps: int = 0
    """The latest steps in a row of which no call succeeded."""
    effect: str = ""
    """The last call that was the first of its like to succeed; empty if none did."""
    effect_step: int = 0

    @property
    def words(self) -> str:
        """`Step 12 of 50. Called 4 times: …. The last step that brought anything new was step 7: ….`"""
        parts = [f"Step {self.step} of {self.step_limit}."]
        if self.times > 1:
            parts.append(f"Called {self.times} times in this turn: {self.repeated}.")
        if self.fruitless_steps > 1:
            parts.append(f"No call of the last {self.fruitless_steps} steps succeeded.")
        if self.effect:
            parts.append(f"The last step that brought anything new was step {self.effect_step}: {self.effect}.")
        else:
            parts.append("No step of this turn has brought anything new.")
        return " ".join(parts)


_BEGINNING = TurnProgress()


def staged_instruction(proposals: Sequence[str], paths: Iterable[str]) -> Intervention:
    """Return the instruction of the closing request: an edit is staged, hand control back.

    Args:
        proposals: ids staged in this turn.
        paths: the files that they change.
    """
    many = len(proposals) > 1
    return _instruction(
        InterventionKind.STAGED,
        f"Your edits are staged as {'proposals' if many else 'proposal'} {', '.join(proposals)} "
        f"({_names(paths)}), awaiting approval by the user. Nothing is written to disk yet. Do not call tools. "
        "Hand control back to the user now: say in a few sentences what the change does and what to look at.",
    )


def closing_instruction(
    kind: InterventionKind,
    proposals: Sequence[str] = (),
    paths: Iterable[str] = (),
    progress: TurnProgress = _BEGINNING,
) -> Intervention:
    """Return the instruction of a closing request, whatever its cause."""
    match kind:
        case InterventionKind.STEP_LIMIT:
            return _instruction(
                kind,
                f"The step limit of this turn is reached. {progress.words} Do not call tools. Hand control back to "
                "the user: say what is done, what is left, and how you would go on.",
            )
        case InterventionKind.NO_PROGRESS:
            return _instruction(
                kind,
                f"This turn makes no progress. {progress.words} Do not call tools. Hand control back to the user: "
                "say what you tried, what stands in the way, and what you need.",
            )
    return staged_instruction(proposals, paths)


def nudge_instruction(
    kind: InterventionKind, *, calls: bool = False, progress: TurnProgress = _BEGINNING
) -> Intervention:
    """Return a remark on the last response, for the next request only.

    Args:
        kind: `EMPTY_RESPONSE`, `TRUNCATED` or `NO_PROGRESS`.
        calls: for `TRUNCATED`, whether tool calls were cut off.
        progress: for `NO_PROGRESS`, of the turn.
    """
    match kind:
        case InterventionKind.EMPTY_RESPONSE:
            text = (
                "Your last response was empty. Go on with the task: call a tool, or answer the user. "
                "If you are done, say so in a sentence."
            )
        case InterventionKind.TRUNCATED if calls:
            text = (
                "Your last response was cut off or malformed, and none of its tool calls ran. Call again with whole "
                "arguments; split a large edit into several smaller calls."
            )
        case InterventionKind.TRUNCATED:
            text = (
                "Your last response was cut off. Go on exactly where it stopped, without repeating what is there, "
                "and keep it short."
            )
        case _:
            text = (
                f"This turn makes no progress. {progress.words} The results above are all there is: use them, try "
                "another way, or ask the user."
            )
    return _instruction(kind, text)


def pending_note(proposals: Iterable[Proposal]) -> Intervention | None:
    """Return the note on what awaits the user's decision when the gate opens again; None if nothing does."""
    lines = [_pending_line(proposal) for proposal in proposals if proposal.state.is_pending]
    if not lines:
        return None
    return Intervention(
        kind=InterventionKind.PENDING,
        text=(
            "These proposals still await the user's decision; none of their pending changes is on disk. Reading a "
            "file shows it with them, and later edits of the same files build on them. Do not propose them again.\n"
            + "\n".join(lines)
        ),
        scope="turn",
    )


def planning_instruction() -> Intervention:
    """Return the instruction to plan only, for the whole turn."""
    return Intervention(
        kind=InterventionKind.PLAN,
        text=(
            "Plan mode is on: look, and say what you would do and why; change nothing. Calls of editing tools are "
            "refused. Commands may run, on a copy: what they change is thrown away. The user switches plan mode off."
        ),
        scope="turn",
    )


def repeated_denials_note(denials_in_row: int, *, asks_by_tool: bool = True) -> Intervention | None:
    """Return advice after denials in a row (`PendingProposals.denials_in_row`); None below the threshold.

    `asks_by_tool` says that the model has our tool for questions, which an agent from outside has not.
    """
    if denials_in_row < DENIALS_BEFORE_ADVICE:
        return None
    return Intervention(
        kind=InterventionKind.REPEATED_DENIALS,
        text=(
            f"The user has denied {denials_in_row} proposals in a row. Do not propose another edit yet. Say what you "
            f"understood, and ask the user what the change should be{' (ask_user)' if asks_by_tool else ''}."
        ),
        scope="turn",
    )


def files_changed_note(changed: Mapping[str, ChangedFile]) -> Intervention | None:
    """Return which files and lines differ from what the model has seen; None if none do.

    Args:
        changed: by path, what is different.
    """
    if not changed:
        return None
    gone = [path for path, now in changed.items() if not now.version]
    edited = [_with_lines(path, now.spans) for path, now in changed.items() if now.version]
    sentences = ["Files have changed since you read or edited them, and not by you."]
    if edited:
        sentences.append(f"Read again before you rely on them: {_names(edited)}.")
    if gone:
        sentences.append(f"These are gone: {_names(gone)}.")
    return Intervention(
        kind=InterventionKind.FILES_CHANGED,
        text=" ".join(sentences),
        scope="lasting",
        files={path: now.version for path, now in changed.items()},
    )


def unavailable_tools_note(sentences: Sequence[str]) -> Intervention:
    """Return which tools cannot be used and why, for the whole turn."""
    return Intervention(kind=InterventionKind.FACT, text=" ".join(sentences), scope="turn")


def _instruction(kind: InterventionKind, text: str) -> Intervention:
    return Intervention(kind=kind, text=text, scope="request")


def _pending_line(proposal: Proposal) -> str:
    files = ", ".join(f"{file.path} ({file.op}, +{file.added} -{file.removed})" for file in proposal.in_question)
    notes = {
        ProposalState.STALE: " (stale, it cannot be approved as it is)",
        ProposalState.PARTLY_APPROVED: " (partly approved)",
    }
    reason = f" Reason: {proposal.reason}" if proposal.reason else ""
    return f"- {proposal.id}{notes.get(proposal.state, '')}: {proposal.summary or 'no summary'} [{files}]{reason}"


def _with_lines(path: str, spans: Sequence[LineSpan]) -> str:
    """`a.py (different now: lines 3-5, line 40, lines gone after line 77)`, in the numbers that a read would show."""
    if not spans:
        return path
    shown, more = spans[:_PLACES_NAMED], len(spans) - _PLACES_NAMED
    places = [_place(span) for span in shown] + ([f"{more} more places"] if more > 0 else [])
    return f"{path} (different now: {', '.join(places)})"


def _place(span: LineSpan) -> str:
    if span.start == span.end:
        return f"lines gone after line {span.start}" if span.start else "lines gone at the top"
    if span.end == span.start + 1:
        return f"line {span.end}"
    return f"lines {span.start + 1}-{span.end}"


def _names(paths: Iterable[str]) -> str:
    distinct = list(dict.fromkeys(paths))
    if len(distinct) <= FILES_NAMED:
        return ", ".join(distinct) or "no file"
    return f"{', '.join(distinct[:FILES_NAMED])} and {len(distinct) - FILES_NAMED} more files"
