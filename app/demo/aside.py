"""Answers to questions that the user asks aside about a hunk, from what was read before and from the hunk itself."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from app.demo.conversation import Turn, content_text
from app.demo.findings import Findings
from app.demo.words import WORDS, listed, quoted, ticked

_WORDS: dict[str, str] = WORDS["aside"]
_FENCED = r"\n(?P<fence>`{3,})\n(?P<lines>.*?)\n(?P=fence)"
_ABOUT = re.compile(r"about proposal (?P<id>P\d+) \([^)]*\): (?P<summary>.*?)\. It is ", re.DOTALL)
_HUNK = re.compile(rf"about hunk \d+ of \d+, in (?P<path>.+) from line \d+ on:{_FENCED}", re.DOTALL)
_AROUND = re.compile(rf"with its line numbers:{_FENCED}", re.DOTALL)
_NUMBERED = re.compile(r"^ *\d+  ?", re.MULTILINE)
_DEFINED = re.compile(r"^[-+ ]?\s*(?:(?:async )?def|class)\s+(\w+)|^[-+]?([A-Z][A-Z0-9_]{2,})\b\s*=", re.MULTILINE)
_MOST_USES = 6


def answer_aside(messages: Sequence[dict[str, Any]], turns: Sequence[Turn]) -> str | None:
    """What to say to the last message if it is asked aside; None if it isn't."""
    notes = [content_text(one.get("content")) for one in messages if one["role"] in ("system", "developer")]
    note = next((note for note in reversed(notes) if _WORDS["begins"] in note), "")
    question = content_text(messages[-1].get("content"))
    if not note or messages[-1]["role"] != "user":
        return None
    about, hunk = _ABOUT.search(note), _HUNK.search(note)
    if hunk is None:
        return _WORDS["whole"]
    texts = Findings(call for turn in turns for call in turn.calls).texts
    if re.search(_WORDS["uses_asked"], question, re.IGNORECASE):
        return _uses(hunk["path"], hunk["lines"], _around(note), texts)
    if about is not None and re.search(_WORDS["why_asked"], question, re.IGNORECASE):
        return _WORDS["why"].format(summary=about["summary"], id=about["id"]) + "\n\n" + _change(hunk["lines"])
    return f"{_change(hunk['lines'])}\n\n{_WORDS['more']}"


def _around(note: str) -> str:
    found = _AROUND.search(note)
    return _NUMBERED.sub("", found["lines"]) if found is not None else ""


def _change(lines: str) -> str:
    removed = "\n".join(line[1:] for line in lines.split("\n") if line.startswith("-"))
    added = "\n".join(line[1:] for line in lines.split("\n") if line.startswith("+"))
    parts = [f"It takes this out:\n\n{quoted(removed)}"] if removed else []
    lead = "And puts this in its place" if removed else "It puts this in"
    return "\n\n".join([*parts, f"{lead}:\n\n{quoted(added)}"] if added else parts)


def _uses(path: str, lines: str, around: str, texts: Mapping[str, str]) -> str:
    """Where what a hunk is in, or defines, is named, as far as that was read."""
    names = _names(lines) or _names(around)
    if not names:
        return _WORDS["no_name"]
    places = []
    for file, text in {path: around, **texts}.items():
        for line in text.splitlines():
            if not _DEFINED.match(line) and any(re.search(rf"\b{re.escape(name)}\b", line) for name in names):
                places.append(f"- `{file}`: `{line.strip()}`")
    read = listed([f"`{file}`" for file in dict.fromkeys([path, *texts])])
    if not places:
        return _WORDS["unused"].format(names=ticked(names), read=read)
    found = "\n".join(dict.fromkeys(places[:_MOST_USES]))
    return f"{_WORDS['used'].format(names=ticked(names), read=read)}\n\n{found}"


def _names(text: str) -> list[str]:
    return list(dict.fromkeys(name for found in _DEFINED.findall(text) for name in found if name))
