"""`search_text`: lines that match, in all files or some."""

import asyncio

from pydantic import Field

from app.text.plural import plural
from app.tools.contract import Tool, ToolArguments, ToolContext, ToolError, ToolOutput
from app.tools.search.matching_lines import LiteralMatcher, Matcher, RegexMatcher
from app.tools.search.required import required_texts
from app.tools.search.ripgrep import Sieve, find_ripgrep
from app.tools.search.searching import Findings, Search
from app.tools.search.walk import finished
from app.tools.targets import ask_if_secret, explained, locate_real

TIME_LIMIT = 20.0
"""Seconds; what was found by then is the result."""
_NAMED = 5
"""Files named in a note."""


class SearchTextArguments(ToolArguments):
    """Arguments of `search_text`."""

    pattern: str = Field(
        min_length=1,
        max_length=1_000,
        description="The text to find in a line, taken literally unless `regex` is true.",
    )
    path: str | None = Field(
        default=None, description="A folder or file to search in, relative to the workspace root. Default: the root."
    )
    glob: str | None = Field(default=None, description="Only files that match: *.py, src/**/*.{ts,tsx}.")
    regex: bool = Field(default=False, description="Take the pattern as a regular expression (Python's dialect).")
    ignore_case: bool = Field(default=False, description="Let upper and lower case match each other.")


class SearchText(Tool):
    """Searches with the pending edits in place."""

    name = "search_text"
    kind = "read"
    Arguments = SearchTextArguments
    description = (
        "Find lines in the files of the workspace. The result has each file's path, then its matching lines with "
        "their numbers; where there are too many, the first of them and the true count. Ignored files, binary files "
        "and files that look like secrets are left out. Staged edits are searched in place of what is on disk."
    )

    async def run(self, arguments: SearchTextArguments, context: ToolContext) -> ToolOutput:
        """Search once."""
        if "\n" in arguments.pattern or "\0" in arguments.pattern:
            raise ToolError("The search goes line by line: the pattern must be one line of text.")
        under = locate_real(context.workspace, arguments.path)
        with explained(under):
            is_folder = context.workspace.kind(under) == "folder"
        allowed = ""
        if not is_folder:
            await ask_if_secret(context, under)
            allowed = under
        matcher: Matcher
        if arguments.regex:
            matcher = await asyncio.to_thread(RegexMatcher, arguments.pattern, arguments.ignore_case)
        else:
            matcher = LiteralMatcher(arguments.pattern, arguments.ignore_case)
        search = Search(context, under, arguments.glob or "", matcher, _sieve(arguments, context), allowed)
        return _report(arguments.pattern, await finished(search, TIME_LIMIT))


def _sieve(arguments: SearchTextArguments, context: ToolContext) -> Sieve | None:
    root = context.workspace.root
    program = find_ripgrep(root)
    texts, ignore_case = required_texts(arguments.pattern, regex=arguments.regex, ignore_case=arguments.ignore_case)
    if program is None or not texts:
        return None
    return Sieve(program, root, texts, ignore_case=ignore_case)


def _report(pattern: str, found: Findings) -> ToolOutput:
    lines: list[str] = []
    for path, matches in found.files:
        lines.append(path)
        lines += [f"  {number}: {text}" for number, text in matches]
    counted = (
        f"{plural(found.lines_found, 'matching line')} in {plural(found.files_found, 'file')}"
        if found.lines_found
        else "no matches"
    )
    if not found.lines_found:
        lines.append(f"No line matches {pattern!r} in {plural(found.files_searched, 'file')}.")
    elif found.lines_shown < found.lines_found:
        lines.append(f"[{found.lines_shown} of {counted} shown; narrow the search with path, glob or pattern]")
    else:
        lines.append(f"[{counted}]")
    if found.cut_short:
        lines.append(f"[stopped after {TIME_LIMIT:.0f} s, before all files were searched; narrow the search]")
    if found.secrets:
        lines.append(f"[not searched, since they look like secrets: {_named(found.secrets)}]")
    if found.unreadable:
        lines.append(f"[could not be searched: {_named(found.unreadable)}]")
    return ToolOutput("\n".join(lines), f"{counted}{', cut short' if found.cut_short else ''}")


def _named(paths: list[str]) -> str:
    more = len(paths) - _NAMED
    return ", ".join(paths[:_NAMED]) + (f" and {more:,} more" if more > 0 else "")
