"""Finds in an agent's transcript the model response that contains a call, and the id of the prompt if there is one.

Calls of one response belong to one proposal. A call without a response id counts as a new response.
"""

import json
import os
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from app.workspace.reading import read_tail

_TAIL_BYTES = 4 * 1024 * 1024
"""Bytes that are read from the end of a transcript."""
_MAX_TAIL_BYTES = 64 * 1024 * 1024
"""Bytes that are read if the call is not found in the last `_TAIL_BYTES` bytes."""
_MAX_LOG_DELAY_SECONDS = 5.0
"""Seconds to wait until Copilot CLI has written a call to its log; it writes every tenth of a second."""
_POLL_SECONDS = 0.02
_ATTACHMENTS_WITHOUT_LINES = ("session_context", "prompt_snapshot")
"""Attachments of Claude Code that name files without showing their lines, for example git's status."""
_SAME_TIME_SECONDS = 0.01
"""Maximum difference in seconds between two clock readings of one event; two responses are further apart."""


class ResponseAndPromptIds(NamedTuple):
    """The ids of a model response and of the user's prompt, and the model; empty where the transcript has none."""

    id: str = ""
    model: str = ""
    prompt: str = ""


def find_claude_response(transcript_path: str, call_id: str) -> ResponseAndPromptIds:
    """Return the ids of the model response that contains a call, from a transcript of Claude Code."""
    for line in reversed(_read_marked_lines(transcript_path, call_id)):
        message = line.get("message")
        if line.get("type") == "assistant" and isinstance(message, dict):
            blocks = message.get("content")
            if isinstance(blocks, list) and any(
                isinstance(block, dict) and block.get("id") == call_id for block in blocks
            ):
                return ResponseAndPromptIds(_text_field(message, "id"), _text_field(message, "model"))
    return ResponseAndPromptIds()


def find_claude_prompt_of_user(transcript_path: str, prompt_id: str) -> str:
    """Return the id of the user's prompt before a prompt that Claude Code wrote when a background task ended.

    Returns `prompt_id` itself for other prompts.
    """
    prompt = ""
    for line in _read_marked_lines(transcript_path, '"promptSource"'):
        match line:
            case {"origin": {"kind": "task-notification"}, "promptId": written}:
                if written == prompt_id:
                    return prompt or prompt_id
            case {"promptId": str(prompt)}:
                pass
    return prompt_id


def find_claude_attachments(transcript_path: str, files: Collection[str]) -> set[str]:
    """Return those of the files that Claude Code has attached to the conversation, for a mention or a selection.

    Args:
        transcript_path: Path of the transcript.
        files: Paths; only their file names are searched for.
    """
    attached = [
        json.dumps(line["attachment"], ensure_ascii=False)
        for line in _read_marked_lines(transcript_path, '"attachment"', tail=_MAX_TAIL_BYTES)
        if isinstance(line.get("attachment"), dict)
        and line["attachment"].get("type") not in _ATTACHMENTS_WITHOUT_LINES
    ]
    return {file for file in files if any(file.rpartition("/")[2] in text for text in attached)}


def find_codex_response(transcript_path: str, call_id: str) -> ResponseAndPromptIds:
    """Return the id of the response that contains a call, from a transcript of Codex: the id of its first call.

    Results are written after all calls of a response.
    """
    first = ""
    for line in _read_marked_lines(transcript_path, "_call"):
        item = line.get("payload")
        if not isinstance(item, dict) or not isinstance(item.get("call_id"), str):
            continue
        kind = str(item.get("type", ""))
        if kind.endswith("_call_output"):
            first = ""
        elif kind.endswith("_call"):
            first = first or item["call_id"]
            if item["call_id"] == call_id:
                return ResponseAndPromptIds(first)
    return ResponseAndPromptIds()


def find_last_gemini_response(transcript_path: str, call_id: str) -> ResponseAndPromptIds:
    """Return the ids of the last response and of the user's last prompt, from a transcript of Gemini CLI."""
    found = ResponseAndPromptIds()
    for line in _read_marked_lines(transcript_path, '"type"'):
        if line.get("type") == "gemini":
            found = found._replace(id=_text_field(line, "id"), model=_text_field(line, "model"))
        elif line.get("type") == "user" and "functionResponse" not in json.dumps(line.get("content")):
            found = found._replace(prompt=_text_field(line, "id"))
    return found


def find_last_qwen_response(transcript_path: str, call_id: str) -> ResponseAndPromptIds:
    """Return the id of the last response, from a transcript of Qwen Code, which sends prompt ids in the payload."""
    found = ResponseAndPromptIds()
    for line in _read_marked_lines(transcript_path, '"type"'):
        if line.get("type") == "assistant":
            found = ResponseAndPromptIds(_text_field(line, "uuid"), _text_field(line, "model"))
    return found


def find_last_droid_response(transcript_path: str, call_id: str) -> ResponseAndPromptIds:
    """Return the ids of the last response and of the user's last prompt, from a transcript of Droid."""
    found = ResponseAndPromptIds()
    for line in _read_marked_lines(transcript_path, '"message"'):
        message = line.get("message")
        if line.get("type") != "message" or not isinstance(message, dict):
            continue
        blocks = message.get("content")
        kinds = (
            {block.get("type") for block in blocks if isinstance(block, dict)} if isinstance(blocks, list) else set()
        )
        if message.get("role") == "assistant":
            found = found._replace(id=_text_field(line, "id"), model=_text_field(message, "modelId"))
        elif "text" in kinds and "tool_result" not in kinds and not _text_field(line, "id").startswith("context-"):
            found = found._replace(prompt=_text_field(line, "id"))
    return found


def wait_for_call_in_copilot_log(session: str, called_at: str) -> ResponseAndPromptIds:
    """Wait for a call in Copilot's session log, and return the ids of its response and of the user's prompt.

    The payload contains neither id. Its time is that of the event `hook.start` in the log, and all calls of a
    response have the same time. The log may be a tenth of a second late; until it contains the event, its last
    response and prompt may be older ones. When autopilot continues with its own prompt, the responses still name the
    user's prompt.

    Args:
        session: The id of the session, which names the folder of the log.
        called_at: The time in the payload, in ISO 8601.

    Raises:
        ValueError: There is a log, but the call is not in it.
    """
    folder = _agent_folder("COPILOT_HOME", ".copilot") / "session-state" / session
    since = _parse_time(called_at)
    if "/" in session or not since or not folder.is_dir():
        return ResponseAndPromptIds(called_at)
    until, tail = time.monotonic() + _MAX_LOG_DELAY_SECONDS, _TAIL_BYTES
    while time.monotonic() < until:
        found: ResponseAndPromptIds | None = None
        for line in _read_marked_lines(
            str(folder / "events.jsonl"), '"assistant.message"', '"hook.start"', tail=tail
        ):
            data = line.get("data")
            if not isinstance(data, dict):
                continue
            if line.get("type") == "assistant.message" and not line.get("agentId"):
                # Skip responses of subagents: their calls belong to the prompt of the agent that started them.
                found = ResponseAndPromptIds(
                    called_at, _text_field(data, "model"), _text_field(data, "originatingMessageId")
                )
            elif (
                data.get("hookType") == "preToolUse"
                and _parse_time(_text_field(line, "timestamp")) > since - _SAME_TIME_SECONDS
            ):
                if found or tail == _MAX_TAIL_BYTES:
                    return found or ResponseAndPromptIds(called_at)
                break
        # Before the hook is called, a large edit has been written to the log three times.
        tail = min(2 * tail, _MAX_TAIL_BYTES)
        time.sleep(_POLL_SECONDS)
    raise ValueError(
        f"Copilot CLI did not write the call to its log within {_MAX_LOG_DELAY_SECONDS:g} seconds; make it again"
    )


def find_running_kimi_response(session: str) -> ResponseAndPromptIds:
    """Return the id and the model of the unfinished response, from the logs of a Kimi Code session's agents.

    The payload contains neither the file nor the response, and a call is written to the log only after its hook. Each
    request to the model is a step. Its begin is written before the request, and its end after all its calls.
    """
    newest, found = 0.0, ResponseAndPromptIds()
    if "/" in session:
        return found
    for path in (_agent_folder("KIMI_CODE_HOME", ".kimi-code") / "sessions").glob("*"):
        for log in (path / session / "agents").glob("*/wire.jsonl"):
            begun, step, model = _last_kimi_step(str(log))
            if step and begun > newest:
                newest, found = begun, ResponseAndPromptIds(step, model)
    return found


def _last_kimi_step(log: str) -> tuple[float, str, str]:
    """Return the time, id and model of the last step in a log; the id is empty if the step has ended."""
    begun, step, model = 0.0, "", ""
    for line in _read_marked_lines(log, '"step.begin"', '"step.end"', '"llm.request"'):
        match line:
            case {"type": "llm.request"}:
                model = _text_field(line, "model")
            case {"event": {"type": "step.begin", "uuid": str(step)}, "time": int() | float() as begun}:
                pass
            case {"event": {"type": "step.end"}}:
                step = ""
    return begun, step, model


def _agent_folder(variable: str, name: str) -> Path:
    """Return the folder of an agent: the one in the environment, or `name` in the home folder."""
    return Path(os.environ.get(variable) or f"{os.environ.get('HOME', '')}/{name}")


def _parse_time(text: str) -> float:
    """Return a time in ISO 8601 as Unix seconds; 0 for invalid text."""
    from datetime import datetime

    with suppress(ValueError, OverflowError):
        return datetime.fromisoformat(text).timestamp()
    return 0.0


def _text_field(found: Mapping[str, Any], key: str) -> str:
    value = found.get(key)
    return value if isinstance(value, str) else ""


def _read_marked_lines(path: str, *marks: str, tail: int = _TAIL_BYTES) -> list[dict[str, Any]]:
    """Return the JSON lines in the last `tail` bytes of a file that contain a mark; none if it can't be read."""
    return list(_parse_marked_lines(path, [mark.encode() for mark in marks], tail))


def _parse_marked_lines(path: str, marks: Sequence[bytes], tail: int) -> Iterator[dict[str, Any]]:
    try:
        lines = read_tail(path, tail).split(b"\n")
    except (OSError, ValueError):
        return
    for line in lines:
        if any(mark in line for mark in marks):
            try:
                found = json.loads(line)
            except ValueError:
                continue
            if isinstance(found, dict):
                yield found
