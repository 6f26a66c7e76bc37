"""Walk many files for a tool: those of the overlay, one after the other, for a limited time."""

import asyncio
import re
from collections.abc import Callable, Iterator
from heapq import merge
from typing import Protocol, TypeVar

from app.tools.base.contract import ToolContext, ToolError
from app.tools.base.targets import os_errors_as_tool_errors
from app.workspace.path_rules import LONGEST_PATH
from app.workspace.wildmatch import parse_rule, rule_regex

_BRACES = re.compile(r"\{([^{}]*)\}")
_MOST = 64
"""Patterns that one with braces may stand for."""


def path_matcher(pattern: str) -> Callable[[str], bool]:
    """Return a test of paths by a gitignore pattern.

    A pattern without a slash is looked for in any folder; `**` crosses folders; a folder's name stands for all in it.

    Raises:
        ToolError: The pattern makes no sense.
    """
    expressions: list[str] = []
    for single in _without_braces(pattern.strip()):
        literal = "\\" + single if single.startswith(("!", "#")) else single
        rule = parse_rule(literal.removeprefix("./"))
        translated = rule_regex(rule) if rule and len(rule.text) <= LONGEST_PATH else None
        if rule is None or translated is None:
            raise ToolError(f"{pattern!r} is not a usable pattern; write one like *.py or src/**/*.ts.")
        anywhere = "" if rule.anchored else "(?:.*/)?"
        below = "/.+" if rule.folders_only else "(?:/.+)?"
        expressions.append(f"{anywhere}(?:{translated}){below}")
    compiled = re.compile("|".join(expressions), re.DOTALL)
    return lambda path: compiled.fullmatch(path) is not None


def _without_braces(pattern: str) -> list[str]:
    """The patterns that one with `{a,b}` stands for."""
    done: list[str] = []
    todo = [pattern]
    while todo and len(todo) + len(done) <= _MOST:
        single = todo.pop()
        if found := _BRACES.search(single):
            todo.extend(single[: found.start()] + choice + single[found.end() :] for choice in found[1].split(","))
        else:
            done.append(single)
    if todo:
        raise ToolError(f"{pattern!r} stands for too many patterns; write a simpler one.")
    return done


Result_co = TypeVar("Result_co", covariant=True)


def overlay_files(context: ToolContext, under: str, ended: Callable[[], bool]) -> Iterator[tuple[str, bool]]:
    """All files in a folder that no ignore rule leaves out, sorted, each with whether only pending edits add it.

    For a file, the file itself. The disk is walked as the files are asked for, so do that on a thread. No more come
    once `ended` says so.

    Raises:
        ToolError: There is no such file or folder, on disk or pending.
    """
    added, removed = context.draft.paths()
    added = {path for path in added if under in (".", path) or path.startswith(f"{under}/")}
    with os_errors_as_tool_errors(under):
        nothing_there = bool(added) and context.workspace.kind(under) == "missing"
        on_disk = iter(()) if nothing_there else context.workspace.files(under, ended)
    if not added and under in removed:
        raise ToolError(f"{under} does not exist any more: a staged edit deletes or renames it.")
    there = ((path, False) for path in on_disk if path not in removed and path not in added)
    return merge(there, ((path, True) for path in sorted(added)))


class StoppableWork(Protocol[Result_co]):
    """Work that blocks; `stop` may come from another thread."""

    def run(self) -> Result_co:
        """Do it, or as much of it as is done until it is stopped."""
        ...

    def stop(self) -> None:
        """Make `run` return soon with what it has."""
        ...


async def run_for(work: StoppableWork[Result_co], seconds: float) -> Result_co:
    """Return the result, soon after `seconds` at the latest; cancellation stops the work too."""
    running = asyncio.ensure_future(asyncio.to_thread(work.run))
    try:
        await asyncio.wait({running}, timeout=seconds)
    finally:
        if not running.done():
            work.stop()
            # The thread ends by itself; whatever it has to say then is of no interest.
            running.add_done_callback(lambda done: done.cancelled() or done.exception())
    return await running
