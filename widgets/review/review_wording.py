"""Texts of the approval pane: rows of the queue, the current item and its keys, and check results."""

import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence

from msgspec import Struct
from textual.content import Content
from textual.style import Style

from app.automation.check_results import CheckState, ProposalCheckResult, ProposalChecks
from app.proposals.text.file_warnings import describe_match_level
from app.proposals.values.models import FileDiff, Proposal, ProposalState
from app.review.review_state import ReviewQueueState, find_lasting_permission_forms
from app.review.verdicts import (
    ActionNeedsConfirmation,
    can_be_approved,
    decision_verbs,
    describe_proposal_state_in_review,
)
from app.text.quantities import format_count, join_first
from app.tools.base.command_forms import AllowableCommandPattern, AllowableMcpTool
from app.tools.base.contract import PERMISSION_PURPOSES, PermissionRequest
from widgets.diff.diff_arrangement import DiffComment
from widgets.diff.diff_rows import NoteRow, SourceLinePosition
from widgets.diff.display_cells import display_text

_STATE_GLYPHS: Mapping[ProposalState, tuple[str, str]] = {
    ProposalState.PENDING: ("●", "$text-accent"),
    ProposalState.PARTLY_APPROVED: ("◐", "$text-accent"),
    ProposalState.STALE: ("!", "$text-warning"),
    ProposalState.APPLIED: ("✓", "$text-success"),
    ProposalState.DENIED: ("✗", "$text-error"),
    ProposalState.SUPERSEDED: ("»", "$foreground 60%"),
    ProposalState.UNDONE: ("↶", "$foreground 60%"),
    ProposalState.FAILED: ("!", "$text-error"),
}
"""Sign and colour of each state."""
_DENIED_IN_PART_GLYPH = ("◐", "$text-success")

_CHANGE_COUNT_CELLS = 9
"""Cells for the change counts of a row, so that the summaries are aligned."""

QUIET_STYLE = "$foreground 60%"

_KEY_GAP = "   "
"""Between two keys only; `drop_keys_to_fit` cuts a line there."""
_MIN_TITLE_CELLS = 16
"""Minimum cells for a title; if fewer are left beside the facts, the facts go to the next line."""

ACTION_META_KEY = "review_action"
"""Key in a chip's style meta; the value is the action that a click on the chip runs."""

KeyNameOf = Callable[[str], str]
"""Returns the key label of an action of the review or the diff, by its handler: `approve` → `y`."""


def _state_glyph(proposal: Proposal) -> tuple[str, str]:
    return _DENIED_IN_PART_GLYPH if proposal.is_denied_in_part else _STATE_GLYPHS[proposal.state]


def safe_line_content(text: str, style: str = "") -> Content:
    """Return untrusted text as one line of content."""
    return Content.styled(display_text(" ".join(text.split())).text, style)


def _proposal_title(proposal: Proposal, style: str = "") -> Content:
    """Return the summary on one line; keep the spaces of a command, and show its line ends as signs."""
    return Content.styled(display_text(proposal.summary.strip() or "Edit").text, style)


def find_chip_actions(lines: Sequence[Content]) -> frozenset[str]:
    """Return the actions of the chips on these lines."""
    styles = (span.style for line in lines for span in line.spans)
    return frozenset(
        style.meta[ACTION_META_KEY] for style in styles if isinstance(style, Style) and ACTION_META_KEY in style.meta
    )


def make_chip(key: KeyNameOf, action: str, label: str, style: str = "$primary") -> Content:
    """Return a clickable key with its label."""
    chip = Content.assemble((f" {key(action)} ", f"bold auto on {style}"), " ", label)
    return chip.stylize(Style.from_meta({ACTION_META_KEY: action}))


def _format_change_counts(added: int, removed: int) -> Content:
    """Return the counts, for example `+12 -4`."""
    return Content.assemble((f"+{added:,}", "$text-success"), " ", (f"-{removed:,}", "$text-error"))


def proposal_row(state: ReviewQueueState, proposal: Proposal) -> Content:
    """Return the queue row of a proposal; facts come before the summary, because the end may be cut."""
    glyph, colour = _state_glyph(proposal)
    part = state.hunk_exclusions.approval_selection(proposal)
    title_style = "" if proposal.state.is_pending else QUIET_STYLE
    counts = (part.added, part.removed) if proposal.state.is_pending else (proposal.added, proposal.removed)
    head = Content.assemble(
        (f"{glyph} ", f"bold {colour}"),
        (f"{proposal.id:<4} ", "bold" if proposal.state.is_pending else QUIET_STYLE),
        (counts_text := _format_change_counts(*counts)),
        " " * max(2, _CHANGE_COUNT_CELLS - counts_text.cell_length),
    )
    facts = [
        *_proposal_details(state, proposal),
        _proposal_title(proposal, title_style),
        _first_file_names(proposal).stylize(QUIET_STYLE),
    ]
    return head + Content("  ").join(facts)


def _proposal_details(state: ReviewQueueState, proposal: Proposal, *, reason: bool = True) -> list[Content]:
    """Return the origin, state, version and special facts; with `reason`, also why it is in that state."""
    facts: list[Content] = []
    if proposal.origin.label in state.origins.told_apart:
        facts.append(safe_line_content(proposal.origin.label, "$text-accent"))
    omits_state = proposal.state is ProposalState.STALE and not reason
    if proposal.state is not ProposalState.PENDING and not omits_state:
        facts.append(Content.styled(describe_proposal_state_in_review(proposal), _state_glyph(proposal)[1]))
    if proposal.supersedes:
        facts.append(Content(f"v{proposal.version} of {proposal.supersedes}"))
    elif proposal.version > 1:
        facts.append(Content(f"v{proposal.version}"))
    if proposal.superseded_by:
        facts.append(Content(f"→ {proposal.superseded_by}"))
    part = state.hunk_exclusions.approval_selection(proposal)
    if proposal.state.is_pending and not part.is_all:
        facts.append(Content.styled(f"{len(part.hunks)} of {part.total} hunks", "$text-warning"))
    for rung in {
        match.rung: None for change in proposal.files for match in change.matches if not match.rung.is_exact
    }:
        facts.append(Content.styled(f"found {describe_match_level(rung)}", "$text-warning"))
    if any(change.edited for change in proposal.files):
        facts.append(Content.styled("changed by you", "$text-accent"))
    if any(change.rebased for change in proposal.files):
        facts.append(Content.styled("re-based", "$text-warning"))
    if any(hunk.repeat_of for hunk in proposal.hunks):
        facts.append(Content.styled("repeats a denied edit", "$text-warning"))
    if comments := state.feedback_drafts.remarks.get(proposal.id):
        facts.append(Content.styled(format_count(len(comments), "comment"), "$text-accent"))
    if reason and proposal.reason:
        facts.append(safe_line_content(proposal.reason))
    return [fact.stylize_before(QUIET_STYLE) for fact in facts]


def _first_file_names(proposal: Proposal) -> Content:
    """Return the names of the first three files, and the number of other files."""
    return safe_line_content(join_first([change.path for change in proposal.files]))


def permission_row(state: ReviewQueueState, request_key: str) -> Content:
    """Return the queue row of a permission request; omit the detail if the large pane shows it."""
    permission_request = state.permissions.asked[request_key]
    glyph = "$" if permission_request.kind == "command" else "?"
    line = Content.assemble((f"{glyph} ", "bold $text-warning"), safe_line_content(permission_request.title, "bold"))
    if request_key == state.current:
        return line
    return Content.assemble(line, "  ", (_request_line(permission_request), QUIET_STYLE))


def _request_line(permission_request: PermissionRequest) -> str:
    """Return the request as one line; for an MCP server's tool, only the first line, without the arguments."""
    detail = permission_request.detail
    return display_text(detail.partition("\n")[0] if permission_request.kind == "server" else detail).text


def drop_keys_to_fit(line: Content, width: int) -> Content:
    """Return a line without the keys at its end that do not fit."""
    while line.cell_length > width and (gap := line.plain.rfind(_KEY_GAP)) > 0:
        line = line[:gap]
    return line


class CurrentItemLineOptions(Struct, frozen=True):
    """Options for the lines about the current item: their width, and which facts other lines already show."""

    width: int = 0
    """In cells; 0 while it is unknown."""
    listed: bool = False
    """Whether the list shows the title."""
    comparing: bool = False
    """Whether the diff compares two versions; then no decision is possible."""
    is_outcome_shown: bool = False
    """Whether another line already shows the outcome of a decided proposal."""
    notes_shown: bool = True
    """Whether all notes of a permission request are on the screen."""
    checks: Content | None = None
    """The check results, if all passed and they are short."""


_DEFAULT_OPTIONS = CurrentItemLineOptions()


def is_summary_visible(
    state: ReviewQueueState, proposal: Proposal, lines: Iterable[Content], options: CurrentItemLineOptions
) -> bool:
    """Return whether a proposal's whole summary is visible: in its list row, or else on the lines above the list."""
    if not options.width:
        return True
    if not options.listed:
        return any(_proposal_title(proposal).plain in line.plain for line in lines)
    file_names_cells = _first_file_names(proposal).cell_length + 2
    return proposal_row(state, proposal).cell_length - file_names_cells <= options.width


def current_item_lines(
    state: ReviewQueueState, key: KeyNameOf, options: CurrentItemLineOptions = _DEFAULT_OPTIONS
) -> list[Content]:
    """Return the lines about the current item: what waits, what would change, and the keys for yes and no."""
    proposal = state.proposal
    if permission_request := state.permission_request:
        return _confirmation_lines(state, permission_request, key, options)
    if proposal is None:
        return [_empty_review_line(state)]
    if options.comparing:
        return _comparing_lines(proposal, key)
    if proposal.state.is_pending:
        return _waiting_lines(state, proposal, key, options)
    lines = _decided_lines(state, proposal, key, options)
    # Another line already shows the outcome.
    return lines[1:] or lines if options.is_outcome_shown else lines


def _waiting_lines(
    state: ReviewQueueState, proposal: Proposal, key: KeyNameOf, options: CurrentItemLineOptions
) -> list[Content]:
    facts = _proposal_facts(state, proposal, key, options)
    if options.listed:
        position = f"{state.queue_number(proposal.id)} of {state.waiting_count} waiting"
        name = Content.assemble((f"{proposal.id}  ", "bold $text-accent"), (position, QUIET_STYLE))
        lines = wrap_parts_into_lines([name, *facts], options.width)
    else:
        lines = _title_line(proposal, facts, options.width)
    if not can_be_approved(proposal):
        reason = safe_line_content(proposal.reason or "the files changed on disk")
        lines.append(Content.assemble(("Stale: ", "bold $text-warning"), reason))
    elif state.hunk_exclusions.approval_selection(proposal).is_empty:
        lines.append(Content.styled("No hunk is chosen: nothing would change.", "$text-warning"))
    if state.has_hidden_permission:
        return [*lines, _permission_chip(state, key, options)]
    return [*lines, _decision_key_row(state, proposal, key)]


def _title_line(proposal: Proposal, facts: Sequence[Content], width: int) -> list[Content]:
    """Return `P1 Keep the moon's time  +4 -3  2 files`; the facts may get their own lines."""
    name = Content.styled(f"{proposal.id} ", "bold $text-accent")
    title, facts_text = _proposal_title(proposal, "bold"), Content("  ").join(facts)
    title_cells = width - name.cell_length - facts_text.cell_length - 2
    if not width or title_cells >= min(_MIN_TITLE_CELLS, title.cell_length):
        shown_title = title.truncate(title_cells, ellipsis=True) if width else title
        return [Content("  ").join([name + shown_title, facts_text])]
    return [name + title.truncate(width - name.cell_length, ellipsis=True), *wrap_parts_into_lines(facts, width)]


def wrap_parts_into_lines(parts: Sequence[Content], width: int, gap: str = "  ") -> list[Content]:
    """Join the parts to lines, with as many on each line as fit; if the width is 0, make one line."""
    lines = [parts[0]]
    for part in parts[1:]:
        line = Content(gap).join([lines[-1], part])
        if not width or line.cell_length <= width:
            lines[-1] = line
        else:
            lines.append(part)
    return lines


def _proposal_facts(
    state: ReviewQueueState, proposal: Proposal, key: KeyNameOf, options: CurrentItemLineOptions
) -> list[Content]:
    """Return the facts: what would change, what is special about it, and how much is unseen."""
    part = state.hunk_exclusions.approval_selection(proposal)
    facts: list[Content] = []
    if not options.listed:
        facts += _proposal_details(state, proposal, reason=False)
        facts.append(_format_change_counts(part.added, part.removed))
    if proposal.on_disk:
        facts.append(Content("on disk already"))
    facts.append(Content.styled(format_count(part.files, "file"), QUIET_STYLE))
    if options.checks is not None:
        facts.append(options.checks)
    if can_be_approved(proposal) and (unseen := state.unseen_parts(proposal)):
        unseen_text = f"{unseen.lines:,}" if unseen.lines else format_count(len(unseen.paths), "file")
        facts.append(make_chip(key, "next_unseen", f"{unseen_text} unseen", "$foreground 40%"))
    if proposal.supersedes:
        facts.append(make_chip(key, "toggle_versions", f"changes since {proposal.supersedes}", "$foreground 40%"))
    if only := state.origins.only:
        facts.append(make_chip(key, "next_origin", f"only {only}: {state.origins.hidden_count} more", "$warning"))
    return facts


def _decision_key_row(state: ReviewQueueState, proposal: Proposal, key: KeyNameOf) -> Content:
    """Return the keys that decide on a proposal, with their labels."""
    part = state.hunk_exclusions.approval_selection(proposal)
    verb = decision_verbs(proposal)
    deny = ("deny", f"{verb.deny}{_feedback_phrase(state, proposal, None)}", "$error")
    if not can_be_approved(proposal):
        if proposal.on_disk:
            return Content()
        request = ("request_changes", "ask for a new version", "$primary")
        return _chip_row(key, ("edit", "resolve", "$success"), deny, request)
    request = ("request_changes", verb.request, "$primary")
    toggle = ("toggle_hunk", "hunk in/out", "$foreground 40%")
    if part.is_empty:
        return _chip_row(key, deny, request, toggle)
    with_feedback = _feedback_phrase(state, proposal, part.decided_hunks)
    label = f"{verb.approve}{with_feedback}" if part.is_all else f"{verb.approve} the chosen{with_feedback}"
    also_continues = state.continues_when_empty and part.is_all and len(state.waiting) == 1
    return _chip_row(
        key,
        ("approve", f"{label}, go on" if also_continues else label, "$success"),
        deny,
        request,
        *(() if also_continues or with_feedback else [("approve_and_continue", verb.go_on, "$success")]),
        toggle,
    )


def _feedback_phrase(state: ReviewQueueState, proposal: Proposal, hunks: tuple[str, ...] | None) -> str:
    """Return a phrase about the feedback that will be sent with the decision; empty if there is none."""
    feedback = state.feedback_drafts.feedback_for(proposal, hunks)
    if feedback.feedback.strip():
        return " with your words"
    return f" with {format_count(len(feedback.comments), 'comment')}" if feedback.comments else ""


def _comparing_lines(proposal: Proposal, key: KeyNameOf) -> list[Content]:
    """Return the lines about a comparison of two versions, and the key that ends it."""
    versions = (f"{proposal.supersedes} → {proposal.id}  ", "bold $text-warning")
    disk_note = "; neither is on disk" if proposal.state.is_pending else ""
    return [
        Content.assemble(("Compared  ", QUIET_STYLE), versions, _proposal_title(proposal, "bold")),
        Content.styled(f"The changes between the two versions{disk_note}.", QUIET_STYLE),
        _chip_row(key, ("toggle_versions", f"back to {proposal.id}", "$primary")),
    ]


def _permission_chip(state: ReviewQueueState, key: KeyNameOf, options: CurrentItemLineOptions) -> Content:
    """Return the note that a permission request is open; the keys answer it first."""
    request = "" if options.listed else f": {_request_line(next(iter(state.permissions.asked.values())))}"
    return Content.assemble(
        ("! ", "bold $text-warning"),
        ("First, your permission is needed", "$text-warning"),
        f"{request}  ",
        make_chip(key, "approve", "show", "$warning"),
    )


def _decided_lines(
    state: ReviewQueueState, proposal: Proposal, key: KeyNameOf, options: CurrentItemLineOptions
) -> list[Content]:
    glyph, colour = _state_glyph(proposal)
    title = Content("") if options.listed else _proposal_title(proposal)
    first = Content.assemble(
        (f"{glyph} {proposal.id} {describe_proposal_state_in_review(proposal)}  ", f"bold {colour}"), title
    )
    if state.has_hidden_permission:
        return [first, _permission_chip(state, key, options)]
    verbs = decision_verbs(proposal)
    reversal = {
        ProposalState.APPLIED: ("undo", "undo"),
        ProposalState.DENIED: ("undo", verbs.reopen),
        ProposalState.UNDONE: ("redo", verbs.again),
    }.get(proposal.state)
    parts = [make_chip(key, *reversal)] if reversal else []
    if not state.waiting_count:
        parts.append(_empty_review_line(state))
    return [first, Content(_KEY_GAP).join(parts)] if parts else [first]


def _empty_review_line(state: ReviewQueueState) -> Content:
    """Return the line for an empty review; it mentions an open question in the chat."""
    if state.has_question_in_chat:
        return Content.styled("The model asks you, in the chat.", "$text-accent")
    return Content.styled("Nothing waits for you.", QUIET_STYLE)


def _confirmation_lines(
    state: ReviewQueueState, permission_request: PermissionRequest, key: KeyNameOf, options: CurrentItemLineOptions
) -> list[Content]:
    """Return the keys that answer a request, and the scope of a lasting permission."""
    yes, no = grant_and_deny_labels(permission_request)
    return [
        *([] if options.listed else [safe_line_content(permission_request.title, "bold")]),
        *[safe_line_content(note, QUIET_STYLE) for note in permission_request.notes[:1] if not options.notes_shown],
        _chip_row(
            key,
            ("approve", yes, "$success"),
            ("deny", no, "$error"),
            ("request_changes", f"{no} and say why", "$primary"),
        ),
        *_lasting_lines(state, permission_request, key, options.width),
    ]


def grant_and_deny_labels(permission_request: PermissionRequest | None) -> tuple[str, str]:
    """Return the labels of the keys that grant and deny a permission request."""
    labels = {"changes": ("stage all", "throw away"), "ignored": ("write it", "throw away")}
    return labels.get(permission_request.kind if permission_request else "", ("allow once", "deny"))


def _lasting_lines(
    state: ReviewQueueState, permission_request: PermissionRequest, key: KeyNameOf, width: int
) -> list[Content]:
    """Return the lines about allowing more than this one call."""
    if permission_request.kind in ("changes", "ignored"):
        return []
    form, reason = state.form, find_lasting_permission_forms(permission_request).reason
    if form is None:
        lines = [_chip_row(key, ("allow_session", "just this for the whole session", "$success"))]
        note = [Content.styled(f"Similar commands cannot be allowed: {reason}.", QUIET_STYLE)] if reason else []
        return [*lines, *note]
    chips = [("allow_session", "this session", "$success"), ("allow_project", "always here", "$success")]
    if isinstance(form, AllowableCommandPattern) and len(find_lasting_permission_forms(permission_request).forms) > 1:
        chips += [("wider", "more", "$primary"), ("narrower", "less", "$primary")]
    scope = Content.assemble(("Or ", QUIET_STYLE), describe_permission_scope(permission_request, form))
    parts = [scope, _chip_row(key, *chips)]
    line = Content(_KEY_GAP).join(parts)
    return [line] if not width or line.cell_length <= width else parts


def describe_permission_scope(
    permission_request: PermissionRequest, form: AllowableCommandPattern | AllowableMcpTool
) -> Content:
    """Return the scope of a lasting permission, for example `all that begins with python3 -m`."""
    if isinstance(form, AllowableMcpTool):
        tool_text = Content.styled("this tool, with any arguments: ", QUIET_STYLE)
        return Content.assemble(tool_text, safe_line_content(form.tool, "bold $text-warning"))
    words = shlex.join(form.words)
    if words == permission_request.detail:
        return Content.styled("all that begins with these words" if form.open else "just this command", QUIET_STYLE)
    extent = "all that begins with " if form.open else "just "
    return Content.assemble((extent, QUIET_STYLE), safe_line_content(words, "bold $text-warning"))


def _chip_row(key: KeyNameOf, *chips: tuple[str, str, str]) -> Content:
    return Content(_KEY_GAP).join([make_chip(key, *chip) for chip in chips])


def question_with_keys(question: ActionNeedsConfirmation, key: KeyNameOf) -> Content:
    """Return a confirmation question and, on a second line, the keys that answer it."""
    answers = []
    if question.ids:
        answers.append(("approve", "yes", "$success"))
    if question.named:
        all_label = f"also {', '.join(question.named)}" if question.ids else "approve them anyway"
        answers.append(("approve_all", all_label, "$warning"))
    answers.append(("deny", "no", "$error"))
    return Content("\n").join([safe_line_content(question.question, "bold"), _chip_row(key, *answers)])


def permission_notes_and_must_see_count(permission_request: PermissionRequest) -> tuple[list[NoteRow], int]:
    """Return the whole request for the large pane, and how many of its rows the user must see.

    For a command, these rows end with the command: the notes below it are the same for every command. If the pane has
    no room for all notes, the first one is shown beside the keys.
    """
    folder_text = "" if permission_request.kind == "server" else f" {describe_request_folder(permission_request)}"
    request_rows = [
        NoteRow(-1, f"{PERMISSION_PURPOSES[permission_request.kind]}{folder_text}:", "warning"),
        NoteRow(-1, "", "plain"),
        *(NoteRow(-1, f"  {line}", "plain") for line in permission_request.detail.split("\n")),
    ]
    notes = [NoteRow(-1, note, "plain") for note in permission_request.notes]
    rows = [*request_rows, NoteRow(-1, "", "plain"), *notes] if notes else request_rows
    return rows, len(request_rows if permission_request.kind in ("command", "server") else rows)


def describe_request_folder(permission_request: PermissionRequest) -> str:
    """Return the folder of the request as text."""
    return "the workspace" if permission_request.folder in ("", ".") else display_text(permission_request.folder).text


_CHECK_SIGNS = {
    CheckState.WAITING: ("·", QUIET_STYLE),
    CheckState.RUNNING: ("▸", "$text-accent"),
    CheckState.PASSED: ("✓", "$text-success"),
    CheckState.BROKEN: ("!", "$text-warning"),
}


def check_lines(
    state: ReviewQueueState, proposal_id: str, key: KeyNameOf, width: int, *, show_keys: bool = True
) -> list[Content]:
    """Return the check results and keys, like `ruff ✓ 0.2 s   tests ✗ 3 failed, 0 before`; empty without checks.

    If the width is too small, passed checks are shortened first; then the keys move to another line.
    """
    checks, checked = state.checks.get(proposal_id), state.get(proposal_id)
    if checks is None or (checked and state.hunk_exclusions.approval_selection(checked).is_empty):
        return []
    if checks.why_not:
        return [safe_line_content(f"Not checked: {checks.why_not}", "$text-warning")]
    if not checks.results:
        return []
    # New failures come first, so that they are never cut.
    results = sorted(checks.results, key=lambda result: (not result.has_new_failure, result.outcome is None))
    chips = []
    if show_keys and checks.is_running:
        chips.append(make_chip(key, "run_checks", "end", "$foreground 40%"))
    if show_keys and checks.new_failures:
        chips.append(make_chip(key, "send_findings", "send", "$primary"))
    elif show_keys and checks.has_uncovered_lines:
        chips.append(make_chip(key, "send_findings", "as feedback", "$foreground 40%"))
    if show_keys and any(result.outcome is not None for result in results):
        chips.append(make_chip(key, "show_checks", "log", "$foreground 40%"))
    full, brief = ([_check_result(result, key, brief=brief) for result in results] for brief in (False, True))
    gap = Content(_KEY_GAP)
    for parts in (full, brief):
        line = gap.join([*parts, *chips])
        if not width or line.cell_length <= width:
            return [line]
    line = gap.join(full)
    return [
        *([line] if line.cell_length <= width else wrap_parts_into_lines(brief, width, _KEY_GAP)),
        *([gap.join(chips)] if chips else []),
    ]


def _check_result(result: ProposalCheckResult, key: KeyNameOf, *, brief: bool) -> Content:
    if result.state in (CheckState.NOT_ASKED, CheckState.CANCELLED):
        action = "approve" if result.when == "approve" else "run_checks"
        return Content.assemble((f"{result.name} ", QUIET_STYLE), make_chip(key, action, "run", "$foreground 40%"))
    sign, colour = _CHECK_SIGNS.get(result.state, ("✗", "$text-error" if result.has_new_failure else "$text-warning"))
    if result.stale:
        label = Content.styled(f"{result.name} {sign} ", QUIET_STYLE)
        content = label + safe_line_content(result.stale if brief else result.summary, QUIET_STYLE)
        chip = make_chip(key, "run_checks", "run", "$foreground 40%")
        return content if result.when == "staged" else content + "  " + chip
    match result.state:
        case CheckState.RUNNING:
            text = f"{result.seconds:.0f} s" if brief else f"{result.seconds:.0f} s  {result.progress}"
        case CheckState.WAITING:
            text = "waits"
        case CheckState.PASSED if brief and not result.has_coverage_gap:
            text = ""
        case _:
            text = result.summary
    is_important = result.state not in (CheckState.PASSED, CheckState.WAITING)
    content = Content.assemble((f"{result.name} ", "bold"), (sign, f"bold {colour}"))
    return content + " " + safe_line_content(text, colour if is_important else QUIET_STYLE) if text else content


def check_findings_as_comments(checks: ProposalChecks | None, diffs: Sequence[FileDiff]) -> list[DiffComment]:
    """Return the findings on lines of these diffs; older findings say that they are old."""
    if checks is None:
        return []
    files = {diff.change.path: number for number, diff in enumerate(diffs)}
    comments = []
    for name, finding in checks.findings:
        file = files.get(finding.path)
        if file is not None and finding.line <= len(diffs[file].new):
            text = f"{name}: {finding.text}{'' if finding.new else '  (before, too)'}"
            line = SourceLinePosition(file, "new", finding.line - 1)
            comments.append(DiffComment(line, text, "finding" if finding.new else "known-finding"))
    return comments
