"""Plans which hunks of a proposal are left out together, which ones no test can notice, and their order."""

import ast
import re
from collections.abc import Collection, Iterable, Iterator, Sequence

from msgspec import Struct

from app.concurrency import iterate_when_event_loop_idle
from app.proposals.risk.edited_file import (
    is_documentation_file,
    is_generated_file,
    is_test_or_test_data,
    manifest_name_of_lock_file,
)
from app.proposals.risk.risk_reasons import find_test_names
from app.proposals.text.hunks import has_changed_lines
from app.proposals.values.models import FileDiff, Hunk, HunkState

_COMMENT_LINE = re.compile(r"\s*(?:$|#|//|/\*|\*|--\s|<!--)")
_MAX_PARSED_CHARACTERS = 400_000
"""Maximum characters of a file that is parsed."""
_MAX_NEIGHBOURS = 3
"""Hunks on each side that are left out together with a hunk, if the file does not parse without that hunk alone."""


class HunkGroup(Struct, frozen=True):
    """Hunks of one file that are left out together."""

    path: str
    hunks: tuple[Hunk, ...]
    weight: tuple[int, int] = (0, 0)
    """Importance: the number of hunks with reasons for attention, then the number of changed lines."""

    @property
    def hunk_ids(self) -> frozenset[str]:
        """Return the ids of the hunks."""
        return frozenset(hunk.id for hunk in self.hunks)


class HunkThatChangesTests(Struct, frozen=True):
    """A hunk that adds or changes tests."""

    path: str
    hunk: Hunk
    tests: tuple[str, ...]
    """For Python complete ids, otherwise names that are part of an id."""

    def matching_ids(self, ids: Iterable[str]) -> tuple[str, ...]:
        """Return those of the ids that belong to these tests, including cases of parametrized ones."""
        return tuple(each for each in ids if any(self._is_test_or_case(each, test) for test in self.tests))

    @staticmethod
    def _is_test_or_case(each: str, test: str) -> bool:
        return each == test or each.startswith(f"{test}[") if "::" in test else test in each


class AblationPlan(Struct, frozen=True):
    """The parts of a proposal to leave out, one after the other."""

    groups: tuple[HunkGroup, ...]
    """Code, the most important first."""
    tests: tuple[HunkThatChangesTests, ...]


def plan_ablation(diffs: Sequence[FileDiff], chosen_hunk_ids: Collection[str]) -> AblationPlan:
    """Return the parts to leave out of the chosen hunks of a proposal; call it on a thread.

    Prose, lock files, generated files, and hunks that change only comments are not tried: no test can notice them.
    """
    groups: list[HunkGroup] = []
    tests: list[HunkThatChangesTests] = []
    for diff in iterate_when_event_loop_idle(diffs):
        path = diff.change.path
        hunks = [
            hunk
            for hunk in diff.change.hunks
            if hunk.state is HunkState.PENDING and has_changed_lines(hunk) and hunk.id in chosen_hunk_ids
        ]
        if (
            not hunks
            or is_documentation_file(path)
            or manifest_name_of_lock_file(path)
            or is_generated_file(path, diff.old)
        ):
            continue
        if is_test_or_test_data(path):
            tests += _changed_tests(diff, hunks)
            continue
        marked = {place.hunk for reason in diff.reasons for place in reason.places}
        for group in _group_hunks(diff, hunks):
            weight = sum(hunk.id in marked for hunk in group), sum(hunk.old_count + hunk.new_count for hunk in group)
            groups.append(HunkGroup(path, tuple(group), weight))
    groups.sort(key=lambda group: group.weight, reverse=True)
    return AblationPlan(tuple(groups), tuple(tests))


def text_without_hunks(diff: FileDiff, hunks: Sequence[Hunk], left_out: Collection[str]) -> str:
    """Return the proposed text of a file, with all of these hunks except those that are `left_out`."""
    lines: list[str] = []
    at = 0
    for hunk in sorted(filter(has_changed_lines, hunks), key=lambda hunk: hunk.old_start):
        lines += diff.old[at : hunk.old_start]
        at = hunk.old_start + hunk.old_count
        if hunk.id in left_out:
            lines += diff.old[hunk.old_start : at]
        else:
            lines += diff.new[hunk.new_start : hunk.new_start + hunk.new_count]
    return "\n".join((*lines, *diff.old[at:])) + "\n"


def _group_hunks(diff: FileDiff, hunks: Sequence[Hunk]) -> Iterator[list[Hunk]]:
    if not diff.change.path.endswith(".py") or sum(map(len, diff.new)) > _MAX_PARSED_CHARACTERS:
        yield from ([hunk] for hunk in hunks if _holds_code(diff, hunk))
        return
    whole = _comparable_syntax(text_without_hunks(diff, hunks, ()))
    if whole is None:
        # The file does not parse even with all hunks, so parsing can't group them.
        yield from ([hunk] for hunk in hunks)
        return
    joined: list[set[int]] = []
    for number, hunk in enumerate(hunks):
        without = _comparable_syntax(text_without_hunks(diff, hunks, {hunk.id}))
        if without == whole:
            continue
        members = {number} if without is not None else _hunks_to_remove_together(diff, hunks, number)
        for other in [each for each in joined if each & members]:
            joined.remove(other)
            members |= other
        joined.append(members)
    for members in joined:
        yield [hunks[number] for number in sorted(members)]


def _hunks_to_remove_together(diff: FileDiff, hunks: Sequence[Hunk], number: int) -> set[int]:
    """Return the smallest set of adjacent hunks around one without which the file parses."""
    for reach in range(1, _MAX_NEIGHBOURS + 1):
        for first in range(max(0, number - reach), number + 1):
            members = {each for each in range(first, first + reach + 1) if each < len(hunks)}
            if number in members and _comparable_syntax(
                text_without_hunks(diff, hunks, {hunks[each].id for each in members})
            ):
                return members
    return set(range(len(hunks)))


def _comparable_syntax(text: str) -> str | None:
    """Return a comparable form of a Python text without comments and docstrings; None if it does not parse."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and node.body:
            first = node.body[0]
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and len(node.body) > 1:
                del node.body[0]
    try:
        return ast.dump(tree)
    except RecursionError:
        return text


def _holds_code(diff: FileDiff, hunk: Hunk) -> bool:
    lines = (
        *diff.old[hunk.old_start : hunk.old_start + hunk.old_count],
        *diff.new[hunk.new_start : hunk.new_start + hunk.new_count],
    )
    return not all(map(_COMMENT_LINE.match, lines))


def _changed_tests(diff: FileDiff, hunks: Sequence[Hunk]) -> Iterator[HunkThatChangesTests]:
    path = diff.change.path
    places = list(_python_tests(path, "\n".join(diff.new))) if path.endswith(".py") else None
    for hunk in hunks:
        lines = range(hunk.new_start, hunk.new_start + hunk.new_count)
        if not lines:
            continue
        if places is not None:
            found = [test for test, place in places if place.start < lines.stop and lines.start < place.stop]
        else:
            found = find_test_names(diff.new[lines.start : lines.stop])
        if found:
            yield HunkThatChangesTests(path, hunk, tuple(dict.fromkeys(found)))


def _python_tests(path: str, text: str) -> Iterator[tuple[str, range]]:
    """Yield the ids of a file's tests, each with its lines from 0, decorators included."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    waiting: list[tuple[str, ast.AST]] = [(path, tree)]
    while waiting:
        name, node = waiting.pop()
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.ClassDef):
                waiting.append((f"{name}::{child.name}", child))
            elif isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef) and child.name.startswith("test"):
                first = min([child.lineno, *(decorator.lineno for decorator in child.decorator_list)])
                yield f"{name}::{child.name}", range(first - 1, child.end_lineno or child.lineno)
