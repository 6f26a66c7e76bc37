"""Which lines of a hunk differ in white space alone: in such of it as means nothing in the language of the file.

Where it is not known what white space means, it counts: only what surely says nothing is ever taken for noise. Text
between quotes counts in every language, indentation wherever it may be syntax, and the space beside an operator
everywhere but in languages that are known to read `a+b` as `a + b`.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from app.proposals.text.diff import Change, diff

_SPACE = " \t\r\f"
"""Of all that Unicode calls space, what stands in source on purpose."""

_PIECE = re.compile(
    r"""(?P<quoted>"(?:[^"\\]|\\.|\\$)*"?|'(?:[^'\\]|\\.|\\$)*'?|`[^`]*`?)|(?P<space>[ \t\r\f]+)|[^"'` \t\r\f]+"""
)
"""A quoted text, which may not end on the line; space; anything else."""

_BRACKETS = frozenset("()[]{},;")
_OPERATORS = frozenset("=+-*<>&|^!?:%")
"""Beside a word or a bracket, where `a+b` is read as `a + b`. Not among them is what joins: `1 .5`, `// go:embed`."""


@dataclass(frozen=True, slots=True)
class Meaning:
    """What white space says in the lines of a file."""

    language: str = ""
    """In which indentation has meaning, as people call it; empty if that is not known."""
    indentation: bool = True
    trailing: bool = False
    joins: bool = False
    """Whether an operator and a word are the same with and without space between them."""
    exact: bool = False
    """Whether every space is data."""


_UNKNOWN = Meaning()
_BRACES = Meaning(indentation=False, joins=True)
_MARKUP = Meaning(indentation=False)
_PYTHON = Meaning("Python", joins=True)

_BY_SUFFIX = {
    **dict.fromkeys(("py", "pyi"), _PYTHON),
    **dict.fromkeys(("pyx", "pxd"), Meaning("Cython", joins=True)),
    **dict.fromkeys(("bzl", "star"), Meaning("Starlark", joins=True)),
    **dict.fromkeys(("yml", "yaml"), Meaning("YAML")),
    **dict.fromkeys(("mk", "mak"), Meaning("a makefile")),
    **dict.fromkeys(("hs", "lhs"), Meaning("Haskell")),
    **dict.fromkeys(("fs", "fsx", "fsi"), Meaning("F#")),
    **dict.fromkeys(("md", "markdown", "mdx"), Meaning("Markdown", trailing=True)),
    **dict.fromkeys(("pug", "jade"), Meaning("Pug")),
    **dict.fromkeys(("scala", "sc"), Meaning("Scala")),
    **dict.fromkeys(("cfg", "ini"), Meaning("an INI file")),
    "nim": Meaning("Nim"),
    "coffee": Meaning("CoffeeScript"),
    "haml": Meaning("Haml"),
    "slim": Meaning("Slim"),
    "sass": Meaning("Sass"),
    "styl": Meaning("Stylus"),
    "elm": Meaning("Elm"),
    "gd": Meaning("GDScript"),
    "rst": Meaning("reStructuredText"),
    **dict.fromkeys(
        (
            *("c", "h", "cc", "cpp", "cxx", "hh", "hpp", "hxx", "m", "mm", "cs", "java", "kt", "kts", "go", "rs"),
            *("dart", "ts", "mts", "cts", "json", "jsonc", "json5", "proto", "zig"),
        ),
        _BRACES,
    ),
    **dict.fromkeys(
        (
            # What is called JavaScript may hold markup, where space between a tag and a word is read.
            *("js", "mjs", "cjs", "jsx", "tsx", "vue", "svelte", "html", "htm", "xml", "svg", "css", "scss", "less"),
            *("php", "rb", "lua", "pl", "pm", "swift", "tf", "hcl", "clj", "cljs", "lisp", "el", "scm", "sql"),
            *("toml", "r", "jl", "ex", "exs", "erl", "groovy"),
        ),
        _MARKUP,
    ),
    **dict.fromkeys(("csv", "tsv", "tab", "patch", "diff", "robot", "snap"), Meaning(exact=True)),
}
_BY_NAME = {
    **dict.fromkeys(("makefile", "gnumakefile"), Meaning("a makefile")),
    **dict.fromkeys(("build", "build.bazel", "workspace"), Meaning("Starlark", joins=True)),
}


def meaning_in(path: str) -> Meaning:
    """What white space says in a file of this name."""
    name = path.rpartition("/")[2].lower()
    return _BY_NAME.get(name) or _BY_SUFFIX.get(name.rpartition(".")[2], _UNKNOWN)


def same_but_for_space(old: str, new: str, meaning: Meaning) -> bool:
    """Whether two lines say the same, whatever white space that says nothing they have."""
    if old == new or meaning.exact:
        return old == new
    inner, other = old.strip(_SPACE), new.strip(_SPACE)
    if meaning.indentation and inner and _indentation(old) != _indentation(new):
        return False
    if meaning.trailing and old[len(old.rstrip(_SPACE)) :] != new[len(new.rstrip(_SPACE)) :]:
        return False
    # A directive of the C preprocessor is told apart by the space before its parentheses.
    joins = meaning.joins and not inner.startswith("#")
    return inner == other or _spoken(inner, joins=joins) == _spoken(other, joins=joins)


def _indentation(line: str) -> str:
    return line[: len(line) - len(line.lstrip(_SPACE))]


def _spoken(text: str, *, joins: bool) -> str:
    """A line without the white space that says nothing."""
    return "".join(_pieces(text, joins=joins))


def _pieces(text: str, *, joins: bool) -> Iterator[str]:
    for match in _PIECE.finditer(text):
        if match["space"] is None:
            yield match[0]
        elif not (joins and _needless(text[match.start() - 1], text[match.end()])):
            yield " "


def _needless(before: str, after: str) -> bool:
    """Whether the space between two characters may as well not be there."""
    if _BRACKETS & {before, after}:
        return True
    words = (before.isalnum() or before == "_"), (after.isalnum() or after == "_")
    return any(words) and not all(words) and bool(_OPERATORS & {before, after})


class Rest(NamedTuple):
    """What a hunk changes beyond white space."""

    changes: Sequence[Change]
    """By the numbers of its lines, from 0; none if it changes nothing else."""
    left_out: int
    """Lines that differ in white space that says nothing."""
    indented: int
    """Lines that differ in their indentation alone, which has meaning there or may have."""


def beyond_space(old: Sequence[str], new: Sequence[str], meaning: Meaning) -> Rest | None:
    """What is changed by a hunk of these lines, apart from white space; None if that is all of it.

    Lines are matched without any white space, and then looked at one pair by one.
    """
    if not old or not new or meaning.exact:
        return None
    changes: list[Change] = []
    left_out = indented = 0
    at_old = at_new = 0
    """The first lines that are in no change yet, and say the same as far as was looked."""
    for change in (*diff(_bare(old), _bare(new)), Change(len(old), len(old), len(new), len(new))):
        for line in range(change.old_start - at_old):
            here, there = at_old + line, at_new + line
            if same_but_for_space(old[here], new[there], meaning):
                left_out += 1
            else:
                indented += old[here].strip(_SPACE) == new[there].strip(_SPACE)
                _append(changes, Change(here, here + 1, there, there + 1))
        if change.removed or change.added:
            _append(changes, change)
        at_old, at_new = change.old_end, change.new_end
    if not left_out:
        return Rest((Change(0, len(old), 0, len(new)),), 0, indented) if indented else None
    return Rest(changes, left_out, indented)


def _bare(lines: Sequence[str]) -> list[str]:
    return ["".join(line.split()) for line in lines]


def _append(changes: list[Change], change: Change) -> None:
    """Add a change; one that follows the last without a line between is a part of it."""
    if changes and changes[-1].old_end == change.old_start and changes[-1].new_end == change.new_start:
        last = changes.pop()
        change = Change(last.old_start, change.old_end, last.new_start, change.new_end)
    changes.append(change)
