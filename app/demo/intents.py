"""What the user wants, told by the words of the request."""

import re
from dataclasses import dataclass
from enum import Enum, auto

PATH = re.compile(r"(?<![\w/])(?:[\w@.-]+/)*[\w@.-]*\w\.[A-Za-z]\w{0,9}\b|(?<![\w/])(?:[\w@.-]+/)+[\w@.-]+")
"""Something that looks like a file: a dot and a suffix, or a slash."""

_NAME = r"[`'\"“‘]?(?P<{}>[\w./@-]*\w)[`'\"”’]?(?:\(\))?"
_RENAME = re.compile(
    r"\b(?:rename|move)\s+(?:the\s+)?(?:(?:function|class|constant|variable|method|module|file|name)\s+)?"
    + _NAME.format("old")
    + r"\s+(?:to|into|as|->|→)\s+"
    + _NAME.format("new"),
    re.IGNORECASE,
)
_DELETE = re.compile(r"\b(?:delete|remove)\s+(?:the\s+)?(?:file\s+)?" + _NAME.format("path"), re.IGNORECASE)


class Kind(Enum):
    """The skills of the demo model."""

    HELP = auto()
    CONTINUE = auto()
    THANKS = auto()
    SUMMARY = auto()
    RENAME = auto()
    MOVE = auto()
    DELETE = auto()
    DOCSTRINGS = auto()
    RUN_TESTS = auto()
    FIX = auto()
    VAGUE = auto()
    EXPLAIN = auto()
    SEARCH = auto()


@dataclass(frozen=True, slots=True)
class Intent:
    """A skill and what to use it on."""

    kind: Kind
    paths: tuple[str, ...] = ()
    """Files that the request names."""
    old: str = ""
    new: str = ""
    """For a rename or a move: from what to what."""


_WORDS: tuple[tuple[Kind, re.Pattern[str]], ...] = tuple(
    (kind, re.compile(pattern, re.IGNORECASE))
    for kind, pattern in (
        (Kind.SUMMARY, r"\bsummar\w+\b.*\b(?:conversation|session|history|so far|transcript)\b"),
        (Kind.CONTINUE, r"^\W*(?:continue|go on|carry on|proceed|next|resume|wrap (?:it )?up)\b.{0,30}$"),
        (Kind.THANKS, r"^\W*(?:thank\w*|great|perfect|nice|well done|ok|okay|good)\b.{0,30}$"),
        (Kind.HELP, r"^\W*(?:help|hi|hello|hey)\b.{0,20}$|\bwhat can (?:you|i)\b|\bwho are you\b|\bwhat do you do\b"),
        (Kind.RUN_TESTS, r"\b(?:run|execute)\b.*\btests?\b|\bdo the tests pass\b"),
        (Kind.DOCSTRINGS, r"\bdocstrings?\b|\bdocument (?:the|every|all|each)\b"),
        (Kind.FIX, r"\b(?:fix|repair|solve|debug|bugs?|fail\w*|broken|wrong)\b|\bmake\b.*\btests?\b.*\bpass\b"),
        (Kind.EXPLAIN, r"\b(?:explain|describe|understand|overview|summari[sz]e)\b|\bwalk me through\b"),
        (Kind.EXPLAIN, r"\b(?:what|how) (?:does|do|is|are)\b|\b(?:tell me about|show me|what's in)\b"),
        (Kind.VAGUE, r"\b(?:improve|refactor|polish|tidy|optimi[sz]e|clean\w*|simplify|moderni[sz]e|better|nicer)\b"),
    )
)


def read_intent(text: str) -> Intent:
    """The skill that `text` asks for; SEARCH where no other fits."""
    paths = tuple(dict.fromkeys(PATH.findall(text)))
    if renamed := _RENAME.search(text):
        old, new = renamed["old"], renamed["new"]
        kind = Kind.MOVE if PATH.fullmatch(old) else Kind.RENAME
        return Intent(kind, paths, old, new)
    if (deleted := _DELETE.search(text)) and PATH.fullmatch(deleted["path"]):
        return Intent(Kind.DELETE, (deleted["path"],))
    for kind, pattern in _WORDS:
        if pattern.search(text):
            return Intent(kind, paths)
    return Intent(Kind.SEARCH, paths)
