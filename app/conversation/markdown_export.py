"""Export a session as Markdown: messages, proposals, and who decided what and when."""

from collections.abc import Mapping, Sequence
from datetime import datetime

from app.conversation.events import (
    AssistantMessage,
    CallDeniedWithFeedback,
    Event,
    HistoryCompacted,
    Intervention,
    ProposalDecided,
    ProposalStaged,
    Question,
    RequestFailed,
    SideAnswer,
    SideQuestion,
    ToolCall,
    ToolResult,
    TurnEnded,
    UserAnswer,
    UserMessage,
    UserNotice,
)
from app.conversation.proposal_reports import format_call_denial, format_decision_facts, format_feedback
from app.images.image import Image, join_quoted_names
from app.text.safe_text import escape_unsafe, make_code_fence, make_code_span

_STATE_NOTES = {"interrupted": " (interrupted)", "truncated": " (cut off)", "discarded": " (discarded attempt)"}


def format_session_as_markdown(title: str, model: str, events: Sequence[Event], diffs: Mapping[str, str]) -> str:
    """Return the session as Markdown, with control characters made visible: it is read in terminals, too.

    Args:
        diffs: unified diffs by proposal id; proposals that are missing here have none in the export.
    """
    calls = {call.uid: call for event in events if isinstance(event, AssistantMessage) for call in event.calls}
    parts = [f"# {title or 'Session'}", f"Model: {model or 'unknown'}. All times are local."]
    for event in events:
        if text := _format_event(event, calls, diffs):
            parts.append(text)
    return escape_unsafe("\n\n".join(parts).rstrip("\n") + "\n")


def _format_event(event: Event, calls: Mapping[str, ToolCall], diffs: Mapping[str, str]) -> str:
    when = datetime.fromtimestamp(event.time).strftime("%Y-%m-%d %H:%M:%S")
    match event:
        case UserMessage():
            command_line = f"{make_code_span(event.command.typed)}\n\n" if event.command else ""
            return f"## You, {when}\n\n{command_line}{event.text}{_format_images(event.images)}"
        case UserAnswer():
            return f"## You answered, {when}\n\n{event.text}{_format_images(event.images)}"
        case AssistantMessage() if event.text.strip():
            return f"## {event.model or 'Model'}{_STATE_NOTES.get(event.state, '')}, {when}\n\n{event.text}"
        case ToolResult():
            call = calls.get(event.call)
            command_line = " ".join(filter(None, (call.name if call else "call", _describe_target(call))))
            result_line = f"- {command_line}: {', '.join(filter(None, (event.outcome, event.summary)))}"
            return f"{result_line}{_format_images(event.images)}"
        case ProposalStaged():
            return _format_proposal(event, diffs.get(event.proposal, ""), when)
        case ProposalDecided() | CallDeniedWithFeedback():
            return _format_decision(event, when)
        case Intervention():
            return f"> {event.sender_and_receiver} ({event.kind.replace('_', ' ')}): {' '.join(event.text.split())}"
        case _:
            return _format_other_event(event, when)


def _format_images(images: Sequence[Image]) -> str:
    """Return a line for each image with its description and SHA-256."""
    lines = [
        f"- image {join_quoted_names([one])}: {one.size_label}, {one.media_type}, SHA-256 {one.sha256}"
        for one in images
    ]
    return "\n\n" + "\n".join(lines) if lines else ""


def _format_other_event(event: Event, when: str) -> str:
    match event:
        case Question():
            options = "".join(f"\n{number}. {option}" for number, option in enumerate(event.options, 1))
            return f"## Question, {when}\n\n{event.text}\n{options}"
        case RequestFailed():
            return f"> The request failed at {when}: {event.message}"
        case TurnEnded(stopped="aborted"):
            return f"> You interrupted at {when}."
        case HistoryCompacted():
            change = "replaced by a summary" if event.summary else "left out without a summary"
            return f"> Older history was {change} at {when}.\n>\n{quote_text(event.summary)}"
        case UserNotice():
            return f"> {event.sender_and_receiver}: {event.text}"
        case SideQuestion():
            picked = f"{make_code_block(event.picked, 'diff')}\n\n" if event.picked else ""
            return f"## You asked aside about {event.subject}, {when}\n\n{picked}{event.text}"
        case SideAnswer():
            head = f"## {event.model or 'Model'}, aside{_STATE_NOTES.get(event.state, '')}, {when}"
            return "\n\n".join(filter(None, (head, event.text, event.note and f"> {event.note}")))
        case _:
            return ""


def _format_decision(event: ProposalDecided | CallDeniedWithFeedback, when: str) -> str:
    if isinstance(event, CallDeniedWithFeedback):
        return f"## You denied a call, {when}\n\n{format_call_denial(event)}\n\n{quote_text(event.feedback)}"
    feedback = format_feedback(event)
    quoted_feedback = f"\n\n{quote_text(feedback)}" if feedback else ""
    head = f"## You decided on {event.proposal}: {event.decision.replace('_', ' ')}, {when}"
    return f"{head}\n\n{format_decision_facts(event)}{quoted_feedback}{_format_images(event.images)}"


def _format_proposal(event: ProposalStaged, diff: str, when: str) -> str:
    files = ", ".join(f"{make_code_span(file.path)} (+{file.added} -{file.removed})" for file in event.files)
    author = f"From {event.origin.description}: " if event.origin else ""
    head = f"## Proposal {event.proposal}: {event.summary}, {when}\n\n{author}{files}"
    return f"{head}\n\n{make_code_block(diff, 'diff')}" if diff else head


def make_code_block(text: str, language: str) -> str:
    """Return a code block; its fence is longer than any in the text."""
    fence = make_code_fence(text)
    return f"{fence}{language}\n{text.rstrip()}\n{fence}"


def quote_text(text: str) -> str:
    """Return the text as a Markdown quotation."""
    return "\n".join(f"> {line}".rstrip() for line in text.splitlines())


def _describe_target(call: ToolCall | None) -> str:
    for key in ("path", "command", "pattern", "question"):
        value = (call.arguments or {}).get(key) if call else None
        if isinstance(value, str):
            return make_code_span(value)
    return ""
