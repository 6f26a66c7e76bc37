"""The paths of a workspace, held compactly and searched fuzzily; made for half a million of them.

Paths that share a folder stand together, the names in one text and the folders in another, with a line for each. So
a search is a few scans of long texts by `re` and `str.find`, of which most end early: only the best fifty are wanted,
and once there are as many, longer paths are passed over by the expression itself.
"""

import re
import sys
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from heapq import nsmallest
from itertools import islice

from app.right_of_way import give_way

LIMIT = 50
"""Matches that are kept."""
_BLOCK = 4096
"""Paths in a block; between two of them a search gives way, or is given up."""
_PIECE = 256
"""Paths that are listed, or folders that are searched, before the thread gives way."""
_LONGEST_SCATTERED = 60
"""Letters of the longest query that is also looked for with others between its letters."""
_WORD_STARTS = "_-. "
_BEFORE_WORD = r"[_\-. ]"


class GivenUp(Exception):
    """Nobody waits for the result any more."""


@dataclass(frozen=True, slots=True)
class _Block:
    """Neighbouring paths. Lower-case names and folders are searched, those as they are on disk are shown."""

    names: str
    """A line for each path, with a line feed before the first and after the last."""
    folders: str
    """A line for each run of paths that share a folder, which ends in a slash; empty for the root."""
    real_names: str
    real_folders: str
    name_starts: "array[int]"
    """Where in `names` the line feed before each run is, and one for the end."""
    folder_starts: "array[int]"
    """Where in `folders` each line begins, and one for the end."""
    shortest_folder: int
    shortest: int
    """Characters of the shortest path."""
    last: str
    """The last path."""

    def run_of(self, start: int) -> int:
        """Return the number of the run that has the name at an index of `names`."""
        return bisect_right(self.name_starts, start - 1) - 1

    def folder_length(self, run: int) -> int:
        """Return how many characters the folder of a run has, with its slash."""
        return self.folder_starts[run + 1] - self.folder_starts[run] - 1

    def path(self, start: int) -> str:
        """Return the path, as it is on disk, of the name at an index of `names`."""
        run = self.run_of(start)
        folder_start, name_start = self.folder_starts[run], start
        if len(self.names) != len(self.real_names) or len(self.folders) != len(self.real_folders):
            # A few letters have more characters in lower case.
            line = self.names.count("\n", 0, start)
            return self.real_folders.split("\n")[run + 1] + self.real_names.split("\n")[line]
        folder = self.real_folders[folder_start : self.folder_starts[run + 1] - 1]
        return folder + self.real_names[name_start : self.real_names.index("\n", name_start)]


def _block(paths: Iterable[str]) -> _Block:
    names: list[str] = []
    folders: list[str] = []
    name_starts, folder_starts = array("I"), array("I")
    at, folder_at, current, path, shortest = 0, 1, None, "", sys.maxsize
    for path in paths:
        slash = path.rfind("/") + 1
        name = path[slash:]
        if path[:slash] != current:
            current = path[:slash]
            folders.append(current)
            name_starts.append(at)
            folder_starts.append(folder_at)
            folder_at += len(current.lower()) + 1
        shortest = min(shortest, len(path))
        names.append(name)
        at += len(name.lower()) + 1
    name_starts.append(at)
    folder_starts.append(folder_at)
    real_names, real_folders = "\n".join(["", *names, ""]), "\n".join(["", *folders, ""])
    lower_names, lower_folders = (
        lower if (lower := text.lower()) != text else text for text in (real_names, real_folders)
    )
    return _Block(
        lower_names,
        lower_folders,
        real_names,
        real_folders,
        name_starts,
        folder_starts,
        min(map(len, folders)),
        shortest,
        path,
    )


@dataclass(slots=True)
class _Best:
    """The best matches found so far."""

    found: dict[tuple[int, int], tuple[int, int]] = field(default_factory=dict)
    """Tier and length, by the number of the block and the index of the name."""
    longest: int | None = None
    """Once there are enough, a match of the same tier must be shorter to be among the best."""

    def take(self, tier: int, number: int, start: int, length: int) -> None:
        """Add a match, unless it has been found in an earlier tier."""
        if self.longest is not None and length >= self.longest:
            return
        self.found.setdefault((number, start), (tier, length))
        if len(self.found) >= (LIMIT if self.longest is None else 2 * LIMIT):
            self._trim()

    def _trim(self) -> None:
        kept = self.in_order()
        self.found = dict(kept)
        self.longest = kept[-1][1][1]

    def in_order(self) -> list[tuple[tuple[int, int], tuple[int, int]]]:
        """Return the best, best first."""
        return nsmallest(LIMIT, self.found.items(), key=lambda each: (*each[1], *each[0]))

    @property
    def is_full(self) -> bool:
        """Whether no later tier can add anything."""
        return self.longest is not None


class PathIndex:
    """Searched by one thread while another lists the paths anew."""

    def __init__(self) -> None:
        self._blocks: tuple[_Block, ...] = ()
        self._narrow: tuple[tuple[_Block, ...], str, list[str]] | None = None
        """All matches of a query in these blocks, where they are few."""

    def refresh(self, paths: Iterable[str], given_up: Callable[[], bool] = lambda: False) -> None:
        """List the paths anew, block by block in the place of what was listed before.

        Args:
            paths: In the order in which they are offered where nothing else decides.
            given_up: Ends it where it is; what has not been listed anew stays as it was.
        """
        new: list[_Block] = []
        old = list(self._blocks)
        for block in _blocks_of(paths):
            if given_up():
                return
            new.append(block)
            while old and old[0].last <= block.last:
                del old[0]
            self._blocks = (*new, *old)
        if not given_up():
            self._blocks = tuple(new)

    def search(self, query: str, given_up: Callable[[], bool] = lambda: False) -> list[str]:
        """Return the best matches among the paths that are listed by now, best first.

        Raises:
            GivenUp: `given_up` said so, which is asked now and then.
        """
        blocks, query = self._blocks, query.lower()
        if not query:
            return list(islice(_all(blocks), LIMIT))
        if self._narrow is not None and self._narrow[0] is blocks and query.startswith(self._narrow[1]):
            kept = ((path.lower(), path) for path in self._narrow[2])
            ranked = [(rank(query, lower), path) for lower, path in kept if _fits(query, lower)]
            # Of the same rank, they are in order already.
            matches = [path for _, path in sorted(ranked, key=lambda each: each[0])]
            self._narrow = (blocks, query, [path for path in self._narrow[2] if path in set(matches)])
            return matches
        best = _Search(blocks, query, given_up).run()
        found = [(at, blocks[at[0]].path(at[1])) for at, _ in best.in_order()]
        self._narrow = None if best.is_full else (blocks, query, [path for _, path in sorted(found)])
        return list(dict.fromkeys(path for _, path in found))


def _blocks_of(paths: Iterable[str]) -> Iterator[_Block]:
    paths = iter(paths)
    gathered: list[str] = []
    while piece := list(islice(paths, _PIECE)):
        give_way()
        gathered += piece
        if len(gathered) >= _BLOCK:
            yield _block(gathered)
            gathered = []
    if gathered:
        yield _block(gathered)


def _all(blocks: Iterable[_Block]) -> Iterator[str]:
    for block in blocks:
        yield from (block.path(found.end()) for found in re.finditer(r"\n(?=.)", block.names))


_Look = Callable[[int, int, _Block], None]
"""Looks for matches of a tier in the block of a number."""


class _Search:
    """One search of all blocks, tier by tier as `rank` has them, until no later one can add anything."""

    def __init__(self, blocks: tuple[_Block, ...], query: str, given_up: Callable[[], bool]) -> None:
        self._blocks = blocks
        self._query = query
        self._given_up = given_up
        self._best = _Best()

    def run(self) -> _Best:
        """Search; raises GivenUp."""
        query, literal = self._query, re.escape(self._query)
        tiers: dict[int, _Look] = {3: self._in_folders}
        if "/" not in query:
            tiers[0] = partial(self._in_names, needed=f"\n{query}", expression=literal)
            tiers[1] = partial(self._in_names, needed=query, expression=f"[^\n]*?{_BEFORE_WORD}{literal}")
            tiers[2] = partial(self._in_names, needed=query, expression=f"[^\n]*?{literal}")
        if len(query) <= _LONGEST_SCATTERED:
            tiers[5] = self._scattered_over_path
            if "/" not in query:
                tiers[4] = partial(self._in_names, needed="", expression=_scattered(query))
        for tier in sorted(tiers):
            for number, block in enumerate(self._blocks):
                give_way()
                if self._given_up():
                    raise GivenUp
                if self._best.longest is None or block.shortest < self._best.longest:
                    tiers[tier](tier, number, block)
            if self._best.is_full:
                break
        return self._best

    def _in_names(self, tier: int, number: int, block: _Block, *, needed: str, expression: str) -> None:
        """Look at the names of a block, if a text is in them that a match needs."""
        if needed in block.names:
            self._take(tier, number, block, expression, 1, len(block.names), block.shortest_folder)

    def _take(
        self, tier: int, number: int, block: _Block, expression: str, start: int, end: int, folder_length: int
    ) -> None:
        """Take the names whose beginning an expression matches, and that are not too long to be among the best."""
        at = start - 1
        while True:
            longest = self._best.longest
            if longest is not None and longest - 1 <= folder_length:
                return
            room = "" if longest is None else f"(?=[^\n]{{1,{longest - 1 - folder_length}}}\n)"
            for found in re.compile(f"\n{room}(?=[^\n])(?:{expression})").finditer(block.names, at, end):
                name = found.start() + 1
                run = block.run_of(name)
                length = block.folder_length(run) + block.names.index("\n", name) - name
                self._best.take(tier, number, name, length)
                if longest is None and self._best.longest is not None:
                    # From here on, shorter ones only.
                    at = found.end()
                    break
            else:
                return

    def _in_folders(self, tier: int, number: int, block: _Block) -> None:
        """Look for the query in folders, or with its last slash where folder and name meet."""
        before, slash, after = self._query.rpartition("/")
        if self._query in block.folders:
            runs = {bisect_right(block.folder_starts, at) - 1 for at in _places(block.folders, self._query)}
            self._take_runs(tier, number, block, sorted(runs), "")
        if slash and after and f"{before}/\n" in block.folders:
            runs = {bisect_right(block.folder_starts, at) - 1 for at in _places(block.folders, f"{before}/\n")}
            self._take_runs(tier, number, block, sorted(runs), re.escape(after))

    def _take_runs(self, tier: int, number: int, block: _Block, runs: Iterable[int], expression: str) -> None:
        for run in runs:
            length = block.folder_length(run)
            starts = block.name_starts
            self._take(tier, number, block, expression, starts[run] + 1, starts[run + 1] + 1, length)

    def _scattered_over_path(self, tier: int, number: int, block: _Block) -> None:
        """Look for the letters of the query in order, the first of them in the folder."""
        if self._best.longest is not None and self._best.longest <= block.shortest_folder:
            return
        letters = [re.escape(letter) for letter in self._query]
        expression = "".join(f"(?:[^{letter}\n]*+{letter}()" for letter in letters) + ")?+" * len(letters)
        reach = re.compile(rf"\n{expression}(?=[^\n]*+\n)")
        for run, found in enumerate(reach.finditer(block.folders)):
            if run % _PIECE == 0:
                give_way()
            if taken := found.lastindex:
                self._take_runs(tier, number, block, (run,), _scattered(self._query[taken:]))


def _fits(query: str, path: str) -> bool:
    return query in path or (len(query) <= _LONGEST_SCATTERED and is_subsequence(query, path))


def _scattered(letters: str) -> str:
    """An expression for letters in order, with anything between them."""
    return "".join(f"[^{re.escape(letter)}\n]*+{re.escape(letter)}" for letter in letters)


def _places(text: str, part: str) -> Iterator[int]:
    at = text.find(part)
    while at >= 0:
        yield at
        at = text.find(part, at + 1)


def rank(query: str, path: str) -> int:
    """How well a lower-case path fits a query that it contains at least as a subsequence; smaller is better."""
    start = path.rfind("/") + 1
    if path.startswith(query, start):
        tier = 0
    elif path.find(query, start) >= 0:
        tier = 1 if any(path.find(before + query, start) >= 0 for before in _WORD_STARTS) else 2
    elif query in path:
        tier = 3
    else:
        tier = 4 if is_subsequence(query, path[start:]) else 5
    return tier * 100_000 + len(path)


def is_subsequence(query: str, name: str) -> bool:
    """Whether all characters of the query are in the name, in order."""
    position = -1
    for character in query:
        position = name.find(character, position + 1)
        if position < 0:
            return False
    return True
