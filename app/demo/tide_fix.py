"""The one kind of bug that the demo model can mend: tides that keep the sun's time instead of the moon's.

It is known by what the files say, not by where they lie: a lunar day that lacks its 50 minutes in one module,
flat steps of 12 and 6 hours in another. A lunar day is 24 h 50 min, and the sea rises twice in it.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath

from app.demo.intents import PATH

_CONSTANT = re.compile(r"^(?P<name>\w*LUNAR\w*) = timedelta\(hours=24(?P<rest>, minutes=50)?\)$", re.MULTILINE)
_FLAT_STEP = re.compile(r"timedelta\(hours=(12|6)\)")
_CAPITALS = re.compile(r"\b[A-Z][A-Z0-9]*_[A-Z0-9_]*[A-Z0-9]\b")
_IMPORT = re.compile(r"^(?:from|import) ")


@dataclass(frozen=True, slots=True)
class TideBug:
    """Where the bug is."""

    constant: str
    """The name of the lunar day."""
    moon: str
    """The file that defines it."""
    tides: str
    """The file that steps by flat hours; empty if none does."""
    test: str
    """A test of the tides; empty if none was read."""


@dataclass(frozen=True, slots=True)
class FixStyle:
    """How to mend it."""

    name: str = ""
    """Give half a lunar day this name."""
    comment: bool = False
    docstring: bool = False
    test: bool = False
    literal: bool = False
    """Write the hours and minutes out where they are used: fewer lines, and the number in two places."""
    only: str = ""
    """Leave every other file alone."""

    def reasons(self, bug: TideBug) -> list[str]:
        """What sets this fix apart from the plain one, a sentence each."""
        told = [
            (self.only, f"It touches `{self.only}` and nothing else, so the other half of the bug stays for now."),
            (
                self.literal and not self.only,
                "It stays small: no new import, the times are written where they are used.",
            ),
            (self.name, f"Half a lunar day has a name of its own, `{self.name}`, next to `{bug.constant}`."),
            (self.comment, "A comment says why the number is what it is."),
            (self.docstring, f"`{bug.constant}` has a docstring."),
            (self.test, f"`{bug.test}` gets a test that looks a whole week ahead."),
        ]
        return [sentence for wanted, sentence in told if wanted]


def find_bug(sources: Mapping[str, str]) -> TideBug | None:
    """The bug in `sources` (path to text), or None if it isn't there, or no longer."""
    found = next(((path, match) for path, text in sources.items() if (match := _CONSTANT.search(text))), None)
    if found is None:
        return None
    moon, match = found
    code = [path for path in sources if path.endswith(".py") and not _is_test(path) and path != moon]
    tides = next((path for path in code if _FLAT_STEP.search(sources[path])), "")
    if match["rest"] and not tides:
        return None
    test = next((path for path in sources if _is_test(path) and "high_waters(" in sources[path]), "")
    return TideBug(match["name"], moon, tides, test)


def styles(feedback: Sequence[str], bug: TideBug) -> Iterator[FixStyle]:
    """Ways to mend it, best first: what the feedback asks for, then variations of it."""
    asked = FixStyle()
    for words in feedback:
        asked = _follow(words, asked, bug)
    yield asked
    named = replace(asked, name=asked.name or "TIDAL_PERIOD", literal=False)
    yield replace(named, comment=True)
    yield named
    yield replace(asked, comment=not asked.comment)
    yield replace(asked, docstring=not asked.docstring)
    yield replace(asked, comment=True, docstring=True)
    yield replace(named, comment=True, docstring=True)
    if bug.test:
        yield replace(named, comment=True, docstring=True, test=True)
    yield FixStyle(literal=True)


def _follow(words: str, style: FixStyle, bug: TideBug) -> FixStyle:
    """`style`, changed as one piece of feedback says."""
    lowered = words.lower()
    files = [path for path in PATH.findall(words) if path.endswith(".py")]
    only = next((path for path in (bug.moon, bug.tides) for name in files if path and path.endswith(name)), "")
    small = bool(re.search(r"\b(?:smaller|minimal|only|just|simpler|shorter|less|fewer|no import)\b", lowered))
    capitals = next((name for name in _CAPITALS.findall(words) if name != bug.constant), "")
    named = capitals or re.search(r"\b(?:constant|named?|call it|magic)\b", lowered)
    name = (capitals or style.name or "TIDAL_PERIOD") if named else style.name
    test = _wants(lowered, "tests?", style.test)
    return FixStyle(
        name=name,
        comment=_wants(lowered, "comments?|why", style.comment),
        docstring=_wants(lowered, "docstrings?|document", style.docstring),
        test=test and bool(bug.test),
        literal=small and not named,
        only=only if small else "",
    )


def _wants(words: str, thing: str, otherwise: bool) -> bool:
    """Whether `words` ask for `thing`; False if they ask to be without it."""
    found = re.search(rf"\b(?P<no>(?:no|not|without|don't|drop|remove)\b[^.;,\n]{{0,16}})?\b(?:{thing})\b", words)
    return otherwise if found is None else not found["no"]


def mended(sources: Mapping[str, str], bug: TideBug, style: FixStyle) -> dict[str, str]:
    """The files that the fix changes, with their new text."""
    after = {bug.moon: _mended_moon(sources[bug.moon], bug, style)}
    if bug.tides:
        after[bug.tides] = _mended_tides(sources[bug.tides], bug, style)
    if style.test and bug.test:
        after[bug.test] = _extended_test(sources[bug.test])
    return {path: text for path, text in after.items() if text != sources[path] and style.only in ("", path)}


def _mended_moon(text: str, bug: TideBug, style: FixStyle) -> str:
    lines = [f"{bug.constant} = timedelta(hours=24, minutes=50)"]
    if style.comment:
        lines.insert(
            0, "# The moon moves on along its orbit, so the earth needs 50 minutes more to catch up with it."
        )
    if style.docstring:
        lines.append('"""The moon stands over the same pier again after this time."""')
    if style.name and style.name not in text:
        lines += ["", f"{style.name} = {bug.constant} / 2"]
        if style.docstring:
            lines.append('"""From one high water to the next: the sea rises twice in a lunar day."""')
    return _CONSTANT.sub("\n".join(lines), text, count=1)


def _mended_tides(text: str, bug: TideBug, style: FixStyle) -> str:
    if style.literal or style.only:
        text = text.replace("timedelta(hours=12)", "timedelta(hours=12, minutes=25)")
        return text.replace("timedelta(hours=6)", "timedelta(hours=6, minutes=12, seconds=30)")
    name = style.name or bug.constant
    whole, half = (name, f"{name} / 2") if style.name else (f"{name} / 2", f"{name} / 4")
    text = text.replace("timedelta(hours=12)", whole).replace("timedelta(hours=6)", half)
    if style.comment:
        text = re.sub(
            rf"^( *)(.*= {re.escape(whole)})$",
            r"\1# Not 12 hours: the sea keeps the moon's time.\n\1\2",
            text,
            flags=re.MULTILINE,
        )
    return _with_import(text, f"from {_module(bug.moon)} import {name}")


def _with_import(text: str, statement: str) -> str:
    """`text` with `statement` among its imports, in alphabetical order where they have one."""
    lines = text.split("\n")
    if statement in lines:
        return text
    package = " ".join(statement.split(".")[:1])
    places = [number for number, line in enumerate(lines) if _IMPORT.match(line)]
    siblings = [number for number in places if lines[number].startswith(package + ".")]
    later = next((number for number in siblings if lines[number] > statement), None)
    place = later if later is not None else (siblings or places or [-1])[-1] + 1
    lines.insert(place, statement)
    return "\n".join(lines)


def _module(path: str) -> str:
    return path.removeprefix("src/").removesuffix(".py").replace("/", ".")


def _extended_test(text: str) -> str:
    """The test file with one more case at the end of its last class."""
    return text.rstrip("\n") + (
        "\n\n"
        "    def test_a_week_on_the_tides_have_slipped_by_nearly_six_hours(self) -> None:\n"
        "        times = high_waters(datetime(2026, 5, 1, 6, 0), until=datetime(2026, 5, 9))\n"
        "        self.assertEqual(times[14], datetime(2026, 5, 8, 11, 50))\n"
    )


def _is_test(path: str) -> bool:
    parts = PurePosixPath(path).parts
    return "tests" in parts or parts[-1].startswith("test_")
