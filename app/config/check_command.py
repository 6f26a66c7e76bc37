"""Where `{files}` may stand in the command of a check.

The names that it stands for are quoted for the shell that runs the command. Between other quotes that quoting means
nothing: a blank parts a name, and a `$(…)` in one is run.
"""

import re

FILES = "{files}"
_ESCAPED = re.compile(r"\\(\{files\}|.?)", re.DOTALL)
_INERT = re.compile(r"\\(\{files\}|.?)|'[^']*'?|<<<", re.DOTALL)
"""What opens nothing, outside of quotes."""
_COMMENT = re.compile(r"(?<![^\s;&|()])#[^\n]*")
_HERE = re.compile(r"<<(?P<dash>-?)[ \t]*(?P<end>(\\.|'[^'\n]*'|\"[^\"\n]*\"|[^\s;&|<>()'\"\\])+)")
_LINE = re.compile(r"[^\n]*\n|[^\n]+")


def check_placed(command: str) -> str:
    """The command, if no `{files}` in it stands within quotes, backquotes or a here-document, nor is escaped.

    Raises:
        ValueError: one does.
    """
    opened = [""]
    """The innermost last: `"`, a backquote, or a parenthesis, in which quotes begin anew."""
    documents: list[re.Match[str]] = []
    at = 0
    while at < len(command):
        quoted = opened[-1] == '"'
        if command.startswith(FILES, at):
            part, misplaced = FILES, quoted or "`" in opened
        elif match := (_ESCAPED if quoted else _INERT).match(command, at):
            part, misplaced = match[0], FILES in match[0]
        elif not quoted and (match := _COMMENT.match(command, at)):
            part, misplaced = match[0], False
        elif not quoted and (match := _HERE.match(command, at)):
            part, misplaced = match[0], False
            documents.append(match)
        elif not quoted and documents and command[at] == "\n":
            part = "\n" + _bodies(command[at + 1 :], documents)
            misplaced = FILES in part
            documents.clear()
        else:
            part, misplaced = "$(" if command.startswith("$(", at) else command[at], False
            _open_or_close(opened, part)
        if misplaced:
            raise ValueError(
                f"{FILES} is quoted already, so not within quotes; write: sh -c 'lint \"$@\"' sh {FILES}"
            )
        at += len(part)
    return command


def _open_or_close(opened: list[str], part: str) -> None:
    if part == opened[-1] or (part, opened[-1]) == (")", "("):
        opened.pop()
    elif part == "$(" or (part == "(" and opened[-1] != '"'):
        opened.append("(")
    elif part in ('"', "`"):
        opened.append(part)


def _bodies(text: str, documents: list[re.Match[str]]) -> str:
    """The beginning of a text that is these here-documents, one after the other."""
    lines = iter(_LINE.findall(text))
    taken = ""
    for document in documents:
        end = re.sub(r"[\\'\"]", "", document["end"])
        for line in lines:
            taken += line
            if end == (line.lstrip("\t") if document["dash"] else line).removesuffix("\n"):
                break
    return taken
