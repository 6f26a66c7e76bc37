"""The instructions and the tool descriptions of the MCP server.

The schemas are written out rather than made from `arguments`, so that a host which only lists the tools loads nothing
else; a test holds the two together.
"""

from typing import Any

ToolSchema = dict[str, Any]

INSTRUCTIONS = (
    "Use these tools for every change to the files of this workspace, in the place of any other editing tool and of "
    "the shell. An edit is only proposed: nothing is written until the user has looked at its diff in signoff and "
    "approved it, whole or by hunk. Put all files of one change into one propose_edit (or propose_patch), then end "
    "your turn and say what the change does; don't propose more until the user has decided. The decision is the "
    "user's alone: it comes back as the result of a call that waits, or through proposal_status, with the user's own "
    "words. After a denial with feedback, propose again what the user asked for. Read files by your own means: they "
    "hold what is approved."
)


def _object(properties: ToolSchema, required: tuple[str, ...] = ()) -> ToolSchema:
    schema: ToolSchema = {"type": "object", "properties": properties}
    if required:
        schema["required"] = list(required)
    return {**schema, "additionalProperties": False}


def _text(description: str) -> ToolSchema:
    return {"type": "string", "description": description}


def _flag(description: str) -> ToolSchema:
    return {"type": "boolean", "description": description}


MAX_WAIT_SECONDS = 86_400
"""Seconds that one call may wait."""

MAX_PROPOSAL_FILES = 5_000
"""Files in one proposal of an agent."""

_WAIT: ToolSchema = {
    "type": "integer",
    "description": "Wait so many seconds for the user's decision, and give it back as the result. 0: don't wait.",
    "minimum": 0,
    "maximum": MAX_WAIT_SECONDS,
}
_SUMMARY = _text("One line for the user: what the change does and why.")
_ON_TOP_OF = _text(
    "Only if the user has sent a new message since, and wants more while your last proposal still waits: the id of "
    "that proposal, such as P7."
)
_REPLACEMENT = _object(
    {
        "old": _text(
            "The text to replace, exactly as in the file, without line numbers. Whole lines, and enough of them to "
            "occur only once."
        ),
        "new": _text("The text that takes its place; empty to remove it."),
        "replace_all": _flag("Replace every occurrence of exactly this text, except inside longer words."),
        "inside_words": _flag("Take `old` inside longer words too: `id` in `width`."),
        "line": {
            "type": "integer",
            "description": "The line number where `old` begins, if the same text occurs more than once.",
            "minimum": 1,
        },
    },
    ("old", "new"),
)
_FILE = _object(
    {
        "path": _text("The file, relative to the workspace root; as it is called now."),
        "edits": {
            "type": "array",
            "description": "Replacements in the text that is there. All refer to the file as it was read, and none "
            "may overlap.",
            "items": _REPLACEMENT,
            "minItems": 1,
        },
        "content": _text("The whole text of a new file, or new text for all of one; missing folders are made."),
        "delete": _flag("Delete the file."),
        "new_path": _text("Move the file here, with its `edits` or `content` if there are any."),
    },
    ("path",),
)


def _tool(name: str, title: str, description: str, schema: ToolSchema, **hints: bool) -> ToolSchema:
    return {
        "name": name,
        "title": title,
        "description": description,
        "inputSchema": schema,
        "annotations": {"title": title, **hints},
    }


_PROPOSES = {"readOnlyHint": False, "destructiveHint": False, "idempotentHint": False, "openWorldHint": False}
"""A proposal is kept by signoff, for the user to see; no file of the workspace is changed by the call."""

TOOL_SCHEMAS: tuple[ToolSchema, ...] = (
    _tool(
        "propose_edit",
        "Propose an edit",
        "Propose changes to one or more files as one proposal: replacements in their text, whole new text, "
        "deletions, renames. Nothing is written: the user approves or denies it in signoff, whole or by hunk. Put "
        "every file of the change into this one call. If a text is not found, or found more than once, nothing is "
        "staged and the result says what is there instead. Then end your turn.",
        _object(
            {
                "files": {
                    "type": "array",
                    "description": "The changes, each file once.",
                    "items": _FILE,
                    "minItems": 1,
                    "maxItems": MAX_PROPOSAL_FILES,
                },
                "summary": _SUMMARY,
                "wait_seconds": _WAIT,
                "on_top_of": _ON_TOP_OF,
            },
            ("files",),
        ),
        **_PROPOSES,
    ),
    _tool(
        "propose_patch",
        "Propose a patch",
        "Propose changes to one or more files as a patch: a unified diff as git makes it, with a few lines of "
        "context, or one in *** Begin Patch form. Nothing is written: the user approves or denies it in signoff, "
        "whole or by hunk. If any part doesn't fit, nothing is staged. Then end your turn.",
        _object(
            {
                "patch": _text("The patch: a unified diff as git makes it, or one in *** Begin Patch form."),
                "summary": _SUMMARY,
                "wait_seconds": _WAIT,
                "on_top_of": _ON_TOP_OF,
            },
            ("patch",),
        ),
        **_PROPOSES,
    ),
    _tool(
        "proposal_status",
        "Read the user's decision",
        "What became of a proposal: what of it is written, what is denied, what still waits, the user's feedback and "
        "comments whole, and the text that the files hold now. It can wait for the decision.",
        _object(
            {
                "proposal": _text("Its id, such as P7. Default: the last one that you proposed."),
                "wait_seconds": _WAIT,
            },
        ),
        readOnlyHint=True,
        openWorldHint=False,
    ),
)
TOOL_NAMES = tuple(str(tool["name"]) for tool in TOOL_SCHEMAS)
