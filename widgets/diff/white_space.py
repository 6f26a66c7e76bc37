"""Hides white space changes in the view, hunk by hunk.

Only the view changes: hunks, line numbers, the chosen hunks and the written text stay the same. Hidden lines count as
unseen, and also a hunk that is folded into one row: the row shows how many lines it has, but not their content. White
space can do harm in a string of several lines, or if the file's name does not match its language. Therefore, an
approval asks about hidden lines, and the key for the next unseen line shows them.
"""

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from msgspec import Struct, field

from app.proposals.text.diff import LineChange, diff_lines
from app.proposals.values.models import FileDiff, Hunk
from app.review.hunk_lines import HunkPartRanges, hunk_line_numbers, removed_and_added_lines
from app.text.quantities import format_count
from widgets.diff.diff_rows import NoteRow, SourceLinePosition

_SPACE_CHARACTERS = " \t\r\f"
"""White space that is used in source on purpose; Unicode has more."""

_PIECE_PATTERN = re.compile(
    r"""(?P<quoted>"(?:[^"\\]|\\.|\\$)*"?|'(?:[^'\\]|\\.|\\$)*'?|`[^`]*`?)|(?P<space>[ \t\r\f]+)|[^"'` \t\r\f]+"""
)
"""A quoted text, which may be open at the end of the line; space; anything else."""

_BRACKETS = frozenset("()[]{},;")
_OPERATORS = frozenset("=+-*<>&|^!?:%")
"""Space between one of these and a word has no meaning: `a+b` equals `a + b`. Not included are characters for which
it has one: `1 .5`, `// go:embed`.
"""


class SignificantWhitespace(Struct, frozen=True):
    """Which white space has a meaning in the lines of a file: indentation, trailing, around operators, all."""

    language: str = ""
    """Name of the language if indentation has a meaning in it; empty if that is unknown."""
    indentation: bool = True
    trailing: bool = False
    joins: bool = False
    """Whether space between an operator and a word has no meaning."""
    exact: bool = False
    """Whether every space is data."""


_UNKNOWN_RULES = SignificantWhitespace()
_BRACE_RULES = SignificantWhitespace(indentation=False, joins=True)
_MARKUP_RULES = SignificantWhitespace(indentation=False)
_PYTHON_RULES = SignificantWhitespace("Python", joins=True)

_RULES_BY_SUFFIX = {
    **dict.fromkeys(("py", "pyi"), _PYTHON_RULES),
    **dict.fromkeys(("pyx", "pxd"), SignificantWhitespace("Cython", joins=True)),
    **dict.fromkeys(("bzl", "star"), SignificantWhitespace("Starlark", joins=True)),
    **dict.fromkeys(("yml", "yaml"), SignificantWhitespace("YAML")),
    **dict.fromkeys(("mk", "mak"), SignificantWhitespace("a makefile")),
    **dict.fromkeys(("hs", "lhs"), SignificantWhitespace("Haskell")),
    **dict.fromkeys(("fs", "fsx", "fsi"), SignificantWhitespace("F#")),
    **dict.fromkeys(("md", "markdown", "mdx"), SignificantWhitespace("Markdown", trailing=True)),
    **dict.fromkeys(("pug", "jade"), SignificantWhitespace("Pug")),
    **dict.fromkeys(("scala", "sc"), SignificantWhitespace("Scala")),
    **dict.fromkeys(("cfg", "ini"), SignificantWhitespace("an INI file")),
    "nim": SignificantWhitespace("Nim"),
    "coffee": SignificantWhitespace("CoffeeScript"),
    "haml": SignificantWhitespace("Haml"),
    "slim": SignificantWhitespace("Slim"),
    "sass": SignificantWhitespace("Sass"),
    "styl": SignificantWhitespace("Stylus"),
    "elm": SignificantWhitespace("Elm"),
    "gd": SignificantWhitespace("GDScript"),
    "rst": SignificantWhitespace("reStructuredText"),
    **dict.fromkeys(
        (
            *("c", "h", "cc", "cpp", "cxx", "hh", "hpp", "hxx", "m", "mm", "cs", "java", "kt", "kts", "go", "rs"),
            *("dart", "ts", "mts", "cts", "json", "jsonc", "json5", "proto", "zig"),
        ),
        _BRACE_RULES,
    ),
    **dict.fromkeys(
        (
            # JavaScript may contain markup, where space between a tag and a word has a meaning.
            *("js", "mjs", "cjs", "jsx", "tsx", "vue", "svelte", "html", "htm", "xml", "svg", "css", "scss", "less"),
            *("php", "rb", "lua", "pl", "pm", "swift", "tf", "hcl", "clj", "cljs", "lisp", "el", "scm", "sql"),
            *("toml", "r", "jl", "ex", "exs", "erl", "groovy"),
        ),
        _MARKUP_RULES,
    ),
    **dict.fromkeys(("csv", "tsv", "tab", "patch", "diff", "robot", "snap"), SignificantWhitespace(exact=True)),
}
_RULES_BY_NAME = {
    **dict.fromkeys(("makefile", "gnumakefile"), SignificantWhitespace("a makefile")),
    **dict.fromkeys(("build", "build.bazel", "workspace"), SignificantWhitespace("Starlark", joins=True)),
}


def significant_whitespace(path: str) -> SignificantWhitespace:
    """Return the meaning of white space in a file with this name."""
    name = path.rpartition("/")[2].lower()
    return _RULES_BY_NAME.get(name) or _RULES_BY_SUFFIX.get(name.rpartition(".")[2], _UNKNOWN_RULES)


def are_equal_ignoring_space(old: str, new: str, rules: SignificantWhitespace) -> bool:
    """Return whether two lines are equal apart from white space without meaning."""
    if old == new or rules.exact:
        return old == new
    old_code, new_code = old.strip(_SPACE_CHARACTERS), new.strip(_SPACE_CHARACTERS)
    if rules.indentation and old_code and _leading_space(old) != _leading_space(new):
        return False
    if rules.trailing and old[len(old.rstrip(_SPACE_CHARACTERS)) :] != new[len(new.rstrip(_SPACE_CHARACTERS)) :]:
        return False
    # In a C preprocessor directive, a space before parentheses has a meaning.
    joins = rules.joins and not old_code.startswith("#")
    return old_code == new_code or (
        _remove_meaningless_space(old_code, joins) == _remove_meaningless_space(new_code, joins)
    )


def _leading_space(line: str) -> str:
    return line[: len(line) - len(line.lstrip(_SPACE_CHARACTERS))]


def _remove_meaningless_space(text: str, joins: bool) -> str:
    """Return a line without white space that has no meaning."""

    def replacement(match: re.Match[str]) -> str:
        if match["space"] is None:
            return match[0]
        return "" if joins and _is_space_meaningless(text[match.start() - 1], text[match.end()]) else " "

    return _PIECE_PATTERN.sub(replacement, text)


def _is_space_meaningless(before: str, after: str) -> bool:
    if _BRACKETS & {before, after}:
        return True
    are_words = (before.isalnum() or before == "_"), (after.isalnum() or after == "_")
    return any(are_words) and not all(are_words) and bool(_OPERATORS & {before, after})


class NonSpaceChanges(NamedTuple):
    """The changes of a hunk other than white space, and the number of lines that change only white space."""

    changes: Sequence[LineChange]
    """Line numbers from 0; empty if the hunk changes only white space."""
    left_out: int
    """Number of lines that differ only in white space without meaning."""
    indented: int
    """Number of lines that differ only in indentation, which has or may have a meaning."""


def split_off_space_changes(
    old: Sequence[str], new: Sequence[str], rules: SignificantWhitespace
) -> NonSpaceChanges | None:
    """Return the changes other than white space; None if there is no white space change to hide or report.

    Lines are matched without white space, and then compared pair by pair.
    """
    if not old or not new or rules.exact:
        return None
    changes: list[LineChange] = []
    left_out = indented = 0
    old_position = new_position = 0
    """The first lines that are not in a change yet."""
    end = LineChange(len(old), len(old), len(new), len(new))
    for change in (*diff_lines(_remove_all_space(old), _remove_all_space(new)), end):
        for line in range(change.old_start - old_position):
            old_line, new_line = old_position + line, new_position + line
            if are_equal_ignoring_space(old[old_line], new[new_line], rules):
                left_out += 1
            else:
                indented += old[old_line].strip(_SPACE_CHARACTERS) == new[new_line].strip(_SPACE_CHARACTERS)
                _append_change(changes, LineChange(old_line, old_line + 1, new_line, new_line + 1))
        if change.removed or change.added:
            _append_change(changes, change)
        old_position, new_position = change.old_end, change.new_end
    if not left_out:
        return NonSpaceChanges((LineChange(0, len(old), 0, len(new)),), 0, indented) if indented else None
    return NonSpaceChanges(changes, left_out, indented)


def _remove_all_space(lines: Sequence[str]) -> list[str]:
    return ["".join(line.split()) for line in lines]


def _append_change(changes: list[LineChange], change: LineChange) -> None:
    """Add a change; if it directly follows the last change, join both."""
    if changes and changes[-1].old_end == change.old_start and changes[-1].new_end == change.new_start:
        last = changes.pop()
        change = LineChange(last.old_start, change.old_end, last.new_start, change.new_end)
    changes.append(change)


HunkKey = tuple[int, int]
"""(index of the file, index of the hunk in the file)."""


class HideableWhitespaceChanges(Struct, frozen=True):
    """The white space changes that the view hides: which parts of their hunks stay, and how many lines go."""

    parts: Mapping[HunkKey, tuple[HunkPartRanges, ...]] = field(default_factory=dict)
    """The parts of a hunk to show; empty for a hunk that changes only white space."""
    lines: Mapping[HunkKey, int] = field(default_factory=dict)
    """Number of hidden lines of each hunk."""
    indented: Mapping[int, int] = field(default_factory=dict)
    """By file, the number of lines that differ only in indentation and stay visible, as it may have a meaning."""

    def without_hunks(
        self, diffs: Sequence[FileDiff], shown: Collection[str], lines: Collection[SourceLinePosition]
    ) -> "HideableWhitespaceChanges":
        """Return a copy without the hunks that have one of these ids or lines; they are shown completely."""
        shown_hunks = {(file, index) for file, index in self.parts if diffs[file].change.hunks[index].id in shown}
        shown_hunks |= {(line.file, _hunk_index_at(diffs[line.file].change.hunks, line)) for line in lines}
        return HideableWhitespaceChanges(
            {key: parts for key, parts in self.parts.items() if key not in shown_hunks},
            {key: count for key, count in self.lines.items() if key not in shown_hunks},
            self.indented,
        )

    @property
    def hidden_line_count(self) -> int:
        """Return the number of all hidden lines."""
        return sum(self.lines.values())

    def notes(self, diffs: Sequence[FileDiff], key: str) -> dict[int, list[NoteRow]]:
        """Return notes for the headings of files: how much is hidden, the key to show it, and what stays visible."""
        counts: Counter[int] = Counter()
        for (file, _), count in self.lines.items():
            counts[file] += count
        notes_by_file = {
            file: [NoteRow(file, f"{describe_space_lines(count)} · {key} shows them", "note")]
            for file, count in counts.items()
        }
        for file, count in self.indented.items():
            language = significant_whitespace(diffs[file].change.path).language
            reason = f"which has meaning in {language}" if language else "which may have meaning here"
            verb = "changes" if count == 1 else "change"
            text = f"{format_count(count, 'line')} {verb} in indentation alone, {reason}: shown"
            notes_by_file.setdefault(file, []).append(NoteRow(file, text, "note"))
        return notes_by_file


def _hunk_index_at(hunks: Sequence[Hunk], line: SourceLinePosition) -> int:
    """Return the index of the hunk that contains a line; -1 if there is none."""
    index = bisect_right(hunks, line.line, key=lambda hunk: hunk_line_numbers(hunk, line.side).start) - 1
    return index if index >= 0 and line.line in hunk_line_numbers(hunks[index], line.side) else -1


def describe_space_lines(lines: int) -> str:
    """Return for example `12 lines differ in white space only`."""
    return f"{format_count(lines, 'line')} {'differs' if lines == 1 else 'differ'} in white space only"


def find_hideable_whitespace_changes(diffs: Sequence[FileDiff]) -> HideableWhitespaceChanges:
    """Return the white space changes that can be hidden; call it in a thread for a large diff."""
    parts: dict[HunkKey, tuple[HunkPartRanges, ...]] = {}
    lines: dict[HunkKey, int] = {}
    indented: dict[int, int] = {}
    for file, diff in enumerate(diffs):
        rules = significant_whitespace(diff.change.path)
        for index, hunk in enumerate(diff.change.hunks):
            result = split_off_space_changes(*removed_and_added_lines(diff, hunk), rules)
            if result is None:
                continue
            if result.indented:
                indented[file] = indented.get(file, 0) + result.indented
            if result.left_out:
                lines[file, index] = result.left_out
                old, new = hunk.old_start, hunk.new_start
                parts[file, index] = tuple(
                    HunkPartRanges(old + change.old_start, change.removed, new + change.new_start, change.added)
                    for change in result.changes
                )
    return HideableWhitespaceChanges(parts, lines, indented)
