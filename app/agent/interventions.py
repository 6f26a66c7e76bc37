"""Instructions of the program to the model: their texts, and which of them start a turn.

Each is an event, sent as a system message, and part of payloads only while it applies (`Intervention.scope`). The
messages about the user's decisions are in `app.conversation.proposal_reports`.
"""

import asyncio
import contextlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from msgspec import Struct

from app.agent.limits import LimitUse
from app.conversation.events import (
    DecisionKind,
    Event,
    Intervention,
    InterventionKind,
    ProposalDecided,
    ProposalStaged,
    ToolResult,
)
from app.conversation.log import EventLog
from app.conversation.proposal_reports import PendingAndDeniedTracker, format_file_stats
from app.copies import replace
from app.proposals.proposal_service import ProposalService
from app.proposals.text.line_comparison import LineRange
from app.proposals.values.models import Proposal, ProposalState
from app.proposals.values.origin import OriginKind
from app.text.quantities import join_first

DENIALS_BEFORE_ADVICE = 3
"""Denials in a row without an approval, after which the model is advised to ask instead."""
FILES_NAMED = 20
"""Longest list of file names; further files are only counted."""
_MAX_PLACES_NAMED = 6
"""Maximum number of changed places named for one file; further places are only counted."""


class UnseenFileChange(Struct, frozen=True):
    """A change of a file that the model has not seen: the new version and, if known, the changed lines."""

    version: str
    """SHA-256 (hex) of the content that a read would return; empty if the file does not exist any more."""
    spans: Sequence[LineRange] = ()
    """The lines of the file that the model has not seen, if they could be determined."""


class TurnProgress(Struct, frozen=True):
    """Progress of a turn, for messages to a model that makes no progress or reaches the step limit."""

    step: int = 0
    """Requests made in the turn."""
    step_limit: int = 0
    repeated: str = ""
    """The call that the turn made most often."""
    times: int = 0
    fruitless_steps: int = 0
    """Number of latest consecutive steps in which no call succeeded."""
    effect: str = ""
    """The last successful call that had not succeeded before in the turn; empty if there is none."""
    effect_step: int = 0

    @property
    def description(self) -> str:
        """Return e.g. `Step 12 of 50. Called 4 times in this turn: …. The last step that …: ….`"""
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


_NO_PROGRESS_YET = TurnProgress()


def stop_after_staging_instruction(proposals: Sequence[str], paths: Iterable[str]) -> Intervention:
    """Return the instruction of the closing request after staged edits: return control to the user."""
    many = len(proposals) > 1
    return _request_instruction(
        InterventionKind.STAGED,
        f"Your edits are staged as {'proposals' if many else 'proposal'} {', '.join(proposals)} "
        f"({_list_paths(paths)}), awaiting approval by the user. Nothing is written to disk yet. Do not call tools. "
        "Hand control back to the user now: say in a few sentences what the change does and what to look at.",
    )


def closing_instruction(
    kind: InterventionKind,
    proposals: Sequence[str] = (),
    paths: Iterable[str] = (),
    progress: TurnProgress = _NO_PROGRESS_YET,
    unread: int = 0,
) -> Intervention:
    """Return the system instruction of a closing request of this kind.

    Args:
        proposals: Ids staged in this turn.
        paths: The files that they change.
        unread: Unread lines, for `UNREAD`.
    """
    match kind:
        case InterventionKind.UNREAD:
            staged = f" Your edits so far are staged as {', '.join(proposals)}." if proposals else ""
            text = (
                f"The reviewer has {unread:,} lines to read, and nothing more is staged until they are read.{staged} "
                "Do not call tools, and don't make the change in another way. Stop here: say in a few sentences what "
                "you would change next."
            )
        case InterventionKind.STEP_LIMIT:
            text = (
                f"The step limit of this turn is reached. {progress.description} Do not call tools. Hand control "
                "back to the user: say what is done, what is left, and how you would go on."
            )
        case InterventionKind.COST_LIMIT | InterventionKind.TIME_LIMIT:
            limit = "on the cost of" if kind is InterventionKind.COST_LIMIT else "on the working time of"
            staged = f" Your edits are staged as {', '.join(proposals)}." if proposals else ""
            text = (
                f"The user's limit {limit} this session is reached; this is your last response.{staged} Do not call "
                "tools. Hand control back to the user: say briefly what is done and what is left."
            )
        case InterventionKind.NO_PROGRESS:
            text = (
                f"This turn makes no progress. {progress.description} Do not call tools. Hand control back to the "
                "user: say what you tried, what stands in the way, and what you need."
            )
        case _:
            return stop_after_staging_instruction(proposals, paths)
    return _request_instruction(kind, text)


def nudge_instruction(
    kind: InterventionKind, *, calls_cut_off: bool = False, progress: TurnProgress = _NO_PROGRESS_YET
) -> Intervention:
    """Return a message, for the next request only, that asks the model to go on after a bad or fruitless step.

    Args:
        kind: `EMPTY_RESPONSE`, `TRUNCATED` or `NO_PROGRESS`.
        calls_cut_off: for `TRUNCATED`, whether tool calls were cut off.
    """
    match kind:
        case InterventionKind.EMPTY_RESPONSE:
            text = (
                "Your last response was empty. Go on with the task: call a tool, or answer the user. "
                "If you are done, say so in a sentence."
            )
        case InterventionKind.TRUNCATED if calls_cut_off:
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
                f"This turn makes no progress. {progress.description} The results above are all there is: use them, "
                "try another way, or ask the user."
            )
    return _request_instruction(kind, text)


def limit_near_note(use: LimitUse) -> Intervention:
    """Return the message that most of a limit is used; it applies for the rest of the turn."""
    return Intervention(
        kind=InterventionKind.LIMIT_NEAR,
        text=(
            f"Nearly at a limit that the user has set: {use.description}. Soon no tool will run any more. Finish "
            "what matters most, begin nothing new, and hand control back to the user."
        ),
        scope="turn",
        limit=use.key,
    )


def pending_proposals_note(proposals: Iterable[Proposal]) -> Intervention | None:
    """Return a note to the model that lists the pending proposals; None if there are none."""
    lines = [_describe_pending(proposal) for proposal in proposals if proposal.state.is_pending]
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


def plan_mode_instruction() -> Intervention:
    """Return the instruction to plan without editing; it applies for the whole turn."""
    return Intervention(
        kind=InterventionKind.PLAN,
        text=(
            "Plan mode is on: look, and say what you would do and why; change nothing. Calls of editing tools are "
            "refused. Commands may run, on a copy: what they change is thrown away. The user switches plan mode off."
        ),
        scope="turn",
    )


def repeated_denials_note(denials_in_row: int, *, has_ask_user_tool: bool = True) -> Intervention | None:
    """Return a note that advises the model to ask after several denials in a row; None for fewer denials.

    Args:
        has_ask_user_tool: the model has the tool `ask_user`; agents from outside do not have it.
    """
    if denials_in_row < DENIALS_BEFORE_ADVICE:
        return None
    return Intervention(
        kind=InterventionKind.REPEATED_DENIALS,
        text=(
            f"The user has denied {denials_in_row} proposals in a row. Do not propose another edit yet. Say what you "
            f"understood, and ask the user what the change should be{' (ask_user)' if has_ask_user_tool else ''}."
        ),
        scope="turn",
    )


def files_changed_note(changed: Mapping[str, UnseenFileChange]) -> Intervention | None:
    """Return a note that lists files and lines that differ from those the model has seen; None if none do."""
    if not changed:
        return None
    missing = [path for path, now in changed.items() if not now.version]
    edited = [_describe_changed_file(path, now.spans) for path, now in changed.items() if now.version]
    sentences = ["Files have changed since you read or edited them, and not by you."]
    if edited:
        sentences.append(f"Read again before you rely on them: {_list_paths(edited)}.")
    if missing:
        sentences.append(f"These are gone: {_list_paths(missing)}.")
    return Intervention(
        kind=InterventionKind.FILES_CHANGED,
        text=" ".join(sentences),
        scope="lasting",
        files={path: now.version for path, now in changed.items()},
    )


def user_reran_command_note(proposal: str, paths: Iterable[str]) -> Intervention:
    """Return a note that the user ran a proposal's command again and the new result replaced the old one."""
    return Intervention(
        kind=InterventionKind.FACT,
        text=(
            f"The user has run the command of {proposal} again, on the files as they are now. {proposal} has the "
            f"result of that run and still awaits the user's decision. It differs from what you were told at: "
            f"{_list_paths(paths)}."
        ),
    )


def unavailable_tools_note(sentences: Sequence[str]) -> Intervention:
    """Return a note that says which tools cannot be used and why; it applies for the whole turn."""
    return Intervention(kind=InterventionKind.FACT, text=" ".join(sentences), scope="turn")


def _request_instruction(kind: InterventionKind, text: str) -> Intervention:
    return Intervention(kind=kind, text=text, scope="request")


def _describe_pending(proposal: Proposal) -> str:
    files = format_file_stats(file.stat for file in proposal.counted_changes)
    notes = {
        ProposalState.STALE: " (stale, it cannot be approved as it is)",
        ProposalState.PARTLY_APPROVED: " (partly approved)",
    }
    reason = f" Reason: {proposal.reason}" if proposal.reason else ""
    return f"- {proposal.id}{notes.get(proposal.state, '')}: {proposal.summary or 'no summary'} [{files}]{reason}"


def _describe_changed_file(path: str, spans: Sequence[LineRange]) -> str:
    """Return e.g. `a.py (different now: lines 3-5, line 40, lines gone after line 77)`; numbered as in a read."""
    if not spans:
        return path
    return f"{path} (different now: {join_first([_describe_span(span) for span in spans], _MAX_PLACES_NAMED)})"


def _describe_span(span: LineRange) -> str:
    if span.start == span.end:
        return f"lines gone after line {span.start}" if span.start else "lines gone at the top"
    if span.end == span.start + 1:
        return f"line {span.end}"
    return f"lines {span.start + 1}-{span.end}"


def _list_paths(paths: Iterable[str]) -> str:
    return join_first(list(dict.fromkeys(paths)), FILES_NAMED) or "no file"


_MAX_VERSIONS = 12
"""Versions remembered for each file; the oldest are dropped."""


class _KnownVersion(Struct):
    """A version of a file that the model knows."""

    version: str
    """SHA-256 (hex); empty for a missing file."""
    proposal: str = ""
    """The proposal that produces this version; empty for a version that was read or reported."""
    with_edits_of: Collection[str] = ()
    """Other proposals whose edits this version contains."""
    is_pending: bool = False
    """A part of the proposal is pending."""
    is_partly_decided: bool = False
    """The user decided on parts of the proposal."""
    is_taken_back: bool = False
    """The proposal was denied or undone as a whole."""

    def decide(self, event: ProposalDecided) -> None:
        """Update the state from a decision on this version's proposal."""
        again = event.decision in (DecisionKind.REOPENED, DecisionKind.EDITED)
        taken_back = event.decision in (DecisionKind.DENIED, DecisionKind.UNDONE)
        self.is_pending = event.still_pending or again
        if event.decision is DecisionKind.UNDONE:
            # The undo also reverts decisions on parts of the proposal.
            self.is_partly_decided = False
        if event.hunks or event.decision is DecisionKind.PARTLY_APPROVED:
            self.is_partly_decided = True
        self.is_taken_back = taken_back and not self.is_pending and not self.is_partly_decided


class FileVersionsSeen:
    """Fold over the versions of each file that the model has seen and that its content may derive from.

    For a file that was only read, there is one version. After a staged edit there are two: the one before the edit
    and the one with it. The file may have lines of both until the edit is approved or denied as a whole.
    """

    def __init__(self) -> None:
        self._files: dict[str, list[_KnownVersion]] = {}

    @property
    def versions(self) -> dict[str, tuple[str, ...]]:
        """Return the known versions by path (SHA-256 hex; empty for a missing file)."""
        candidates = ((path, _possible_versions(known)) for path, known in self._files.items())
        # No versions are left if the model wrote a file without reading it and the edit was denied.
        return {path: versions for path, versions in candidates if versions}

    def after_events(self, events: Sequence[Event]) -> "FileVersionsSeen":
        """Return a copy with these events applied; this fold does not change."""
        copied = FileVersionsSeen()
        copied._files = {path: [replace(version) for version in known] for path, known in self._files.items()}
        for event in events:
            copied.apply(event)
        return copied

    def apply(self, event: Event) -> None:
        match event:
            case ToolResult():
                self._apply_versions(event.reads)
            case Intervention():
                # The note reports these versions to the model, which knows them from now on.
                self._apply_versions(event.files)
            case ProposalStaged():
                self._apply_staged(event)
            case ProposalDecided():
                for known in self._files.values():
                    for version in known:
                        if version.proposal == event.proposal:
                            version.decide(event)

    def _apply_versions(self, versions: Mapping[str, str]) -> None:
        for path, version in versions.items():
            known = self._files.setdefault(path, [])
            if not any(version.is_pending for version in known):
                known.clear()
            _add_version(known, _KnownVersion(version))

    def _apply_staged(self, event: ProposalStaged) -> None:
        for stat in event.files:
            if stat.path not in event.versions:
                # Logs of earlier versions of signoff lack the content hash of the edit.
                self._files.pop(stat.path, None)
        if event.supersedes:
            for known in self._files.values():
                known[:] = [version for version in known if version.proposal != event.supersedes]
        # The model does not know the content that a command gave to a file that it never read.
        written = event.origin is not None and event.origin.kind is OriginKind.MODEL
        for path, version in event.versions.items():
            if written or path in self._files:
                known = self._files.setdefault(path, [])
                known[:] = [earlier for earlier in known if earlier.proposal != event.proposal]
                _add_version(known, _KnownVersion(version, event.proposal, is_pending=True))


def _add_version(known: list[_KnownVersion], version_seen: _KnownVersion) -> None:
    others = (version for version in known if version.proposal and not version.is_taken_back)
    version_seen.with_edits_of = {version.proposal for version in others}
    known.append(version_seen)
    del known[:-_MAX_VERSIONS]


def _possible_versions(known_versions: Iterable[_KnownVersion]) -> tuple[str, ...]:
    """Return the versions that the file may derive from; a fully approved version replaces all earlier ones."""
    versions: list[str] = []
    incomplete_proposals: set[str] = set()
    for known in known_versions:
        if known.is_taken_back or known.is_partly_decided:
            incomplete_proposals.add(known.proposal)
        if not known.is_taken_back:
            is_certain = incomplete_proposals.isdisjoint(known.with_edits_of)
            is_whole = not known.is_pending and not known.is_partly_decided
            versions = [known.version] if is_certain and is_whole else [*versions, known.version]
    return tuple(dict.fromkeys(versions))


class TurnStartInterventionBuilder:
    """Composes the interventions at the start of a turn."""

    def __init__(
        self,
        log: EventLog,
        service: ProposalService,
        session_id: str,
        pending: PendingAndDeniedTracker,
        planning: Callable[[], bool] = lambda: False,
    ) -> None:
        self._service = service
        self._session_id = session_id
        self._pending = pending
        self._planning = planning
        self._seen = log.attach(FileVersionsSeen())

    async def compose_interventions(self, opening: Sequence[Event]) -> list[Intervention]:
        """Return the interventions for the start of a turn.

        Args:
            opening: the user's events that start the turn; they are recorded together with the interventions.
        """
        waiting = await asyncio.to_thread(self._service.pending)
        changed = await asyncio.to_thread(self._find_changed_files, self._seen.after_events(opening).versions)
        found = (
            plan_mode_instruction() if self._planning() else None,
            pending_proposals_note(waiting),
            repeated_denials_note(self._pending.count_denials_after(opening)),
            files_changed_note(changed),
        )
        return [intervention for intervention in found if intervention is not None]

    def _find_changed_files(self, known: Mapping[str, Sequence[str]]) -> dict[str, UnseenFileChange]:
        """Return the files whose content differs from the versions that the model knows.

        Only the files that a note names (`FILES_NAMED`) get their changed lines.
        """
        draft = self._service.new_draft(self._session_id)
        changed: dict[str, UnseenFileChange] = {}
        for path, versions in known.items():
            with contextlib.suppress(OSError, ValueError):
                now = draft.read(path)
                if now.version in versions:
                    continue
                spans = draft.lines_changed_since(now, versions) if len(changed) < FILES_NAMED else None
                if spans != ():
                    changed[path] = UnseenFileChange(now.version, spans or ())
        return changed
