"""Compact index of a workspace's paths with fuzzy search, for half a million paths.

Paths that share a folder stand together, the names in one text and the folders in another, with a line for each. So a
search is a few scans of long texts by `re` and `str.find`. Most end early: only the best fifty are wanted, and once
there are as many, longer paths are passed over. What has no match is passed over also when the query goes on.
"""

import re
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from heapq import nsmallest
from itertools import chain, groupby, islice
from typing import NamedTuple

from app.concurrency import yield_to_event_loop

MAX_MATCHES = 50
"""Matches that are kept."""
_BLOCK = 2048
"""Paths in a block. Between two of them, or two groups of them, a search gives way, or is cancelled."""
_PIECE = 256
"""Paths that are listed before the thread gives way."""
_LONGEST_SCATTERED = 60
"""Letters of the longest query that is also looked for with others between its letters."""
_LONGEST = 1 << 31
_FEW = 2048
"""Characters of names that cost less to search than an expression that passes over long names costs to compile."""
_ROOM_STEP = 16
"""Step of the longest length of a name in an expression, so that fewer expressions are compiled."""
_LENGTH_STEP = 16
"""The shortest paths of the runs of a group differ by less than this."""
_BEFORE_WORD = r"[_\-. ]"


class SearchCancelled(Exception):
    """The result is no longer needed."""


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
    folder_lengths: "array[int]"
    """Characters of the folder of each run, with its slash."""
    shortest_paths: "array[int]"
    """Characters of the shortest path of each run, in ascending order."""
    order: "array[int]"
    """Place of each run among those of the block in the order in which the paths were listed."""
    last: str
    """The path that was listed last."""

    def run_of(self, start: int) -> int:
        """Return the number of the run that has the name at an index of `names`."""
        return bisect_right(self.name_starts, start - 1) - 1

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


def _block(paths: Sequence[str]) -> _Block:
    runs: list[tuple[int, int, str, list[str]]] = []
    for folder, group in groupby(paths, lambda path: path[: path.rfind("/") + 1]):
        names = [path[len(folder) :] for path in group]
        shortest = len(folder.lower()) + min(len(name.lower()) for name in names)
        runs.append((shortest, len(runs), folder, names))
    runs.sort()
    name_starts, folder_starts, folder_lengths = array("I", [0]), array("I", [1]), array("I")
    for _, _, folder, names in runs:
        folder_lengths.append(len(folder.lower()))
        folder_starts.append(folder_starts[-1] + folder_lengths[-1] + 1)
        name_starts.append(name_starts[-1] + sum(len(name.lower()) + 1 for name in names))
    shortest_paths, order, folders, names_of_runs = zip(*runs, strict=True)
    real_names = "\n".join(["", *chain.from_iterable(names_of_runs), ""])
    real_folders = "\n".join(["", *folders, ""])
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
        folder_lengths,
        array("I", shortest_paths),
        array("I", order),
        paths[-1],
    )


_Place = tuple[int, int, int]
"""Number of a block, order of a run, and index of a name in the names of the block. Places are in listing order."""


@dataclass(slots=True)
class _Best:
    """The best matches found so far."""

    found: dict[_Place, tuple[int, int]] = field(default_factory=dict)
    """Tier and length, by place."""
    last: tuple[int, _Place] | None = None
    """Length and place of the last of the best, once there are enough."""

    def room(self, place: _Place) -> int:
        """Return how long a path at a place, or after it, may be to be among the best of the tier."""
        if self.last is None:
            return _LONGEST
        length, last_place = self.last
        return length if place < last_place else length - 1

    def take(self, tier: int, place: _Place, length: int) -> None:
        """Add a match, unless it has been found in an earlier tier."""
        if length > self.room(place):
            return
        self.found.setdefault(place, (tier, length))
        if len(self.found) >= (2 * MAX_MATCHES if self.is_full else MAX_MATCHES):
            kept = self.in_order()
            self.found = dict(kept)
            place, (_, length) = kept[-1]
            self.last = length, place

    def in_order(self) -> list[tuple[_Place, tuple[int, int]]]:
        """Return the best, best first."""
        return nsmallest(MAX_MATCHES, self.found.items(), key=lambda each: (*each[1], *each[0]))

    @property
    def is_full(self) -> bool:
        """Whether no later tier can add anything."""
        return self.last is not None


class _Group(NamedTuple):
    """Neighbouring runs of a block, whose shortest paths are of about the same length."""

    shortest: int
    """Characters of the shortest path."""
    number: int
    """Of the block."""
    first: int
    """The first run."""
    end: int
    """The one after the last."""


def _groups(blocks: Iterable[_Block]) -> Iterator[_Group]:
    for number, block in enumerate(blocks):
        first, lengths = 0, block.shortest_paths
        while first < len(lengths):
            end = bisect_left(lengths, lengths[first] + _LENGTH_STEP, first)
            yield _Group(lengths[first], number, first, end)
            first = end


@dataclass(slots=True)
class _Candidates:
    """Where matches of a query may be, and so those of each query that begins with it."""

    blocks: tuple[_Block, ...]
    query: str
    in_names: Sequence[int]
    """Numbers of the blocks that have the query in a name."""
    scattered: dict[int, Sequence[_Group]] = field(default_factory=dict)
    """Groups that may have a match, by tier, those of short paths first; of a tier that is missing, all may have."""

    def groups(self, tier: int) -> Sequence[_Group]:
        """Return the groups that may have a match of a tier, those of short paths first."""
        if tier in self.scattered:
            return self.scattered[tier]
        return sorted(_groups(self.blocks))


class PathIndex:
    """Index of paths, searched by one thread while another refreshes it."""

    def __init__(self) -> None:
        self._blocks: tuple[_Block, ...] = ()
        self._candidates = _Candidates((), "", ())
        """Of the latest query."""

    def rebuild(self, paths: Iterable[str], is_cancelled: Callable[[], bool] = lambda: False) -> None:
        """List the paths again, replacing the index block by block.

        Args:
            paths: In the order in which they are offered where nothing else decides.
            is_cancelled: Ends it where it is; what has not been listed anew stays as it was.
        """
        new: list[_Block] = []
        old = list(self._blocks)
        for block in _blocks_of(paths):
            if is_cancelled():
                return
            new.append(block)
            while old and old[0].last <= block.last:
                del old[0]
            self._blocks = (*new, *old)
        if not is_cancelled():
            self._blocks = tuple(new)

    def find_paths(self, query: str, is_cancelled: Callable[[], bool] = lambda: False) -> list[str]:
        """Return the best matches among the indexed paths, best first.

        Raises:
            SearchCancelled: `is_cancelled` said so, which is asked now and then.
        """
        blocks, query = self._blocks, query.lower()
        if not query:
            return list(islice(_all(blocks), MAX_MATCHES))
        # The search before may still be at work on a thread: its candidates are replaced, not changed.
        kept = self._candidates
        if kept.blocks is blocks and query.startswith(kept.query):
            candidates = _Candidates(blocks, query, kept.in_names, kept.scattered.copy())
        else:
            candidates = _Candidates(blocks, query, range(len(blocks)))
        try:
            best = _Search(candidates, is_cancelled).run()
        finally:
            self._candidates = candidates
        return list(dict.fromkeys(blocks[number].path(start) for (number, _, start), _ in best.in_order()))


def _blocks_of(paths: Iterable[str]) -> Iterator[_Block]:
    paths = iter(paths)
    gathered: list[str] = []
    while piece := list(islice(paths, _PIECE)):
        yield_to_event_loop()
        gathered += piece
        if len(gathered) >= _BLOCK:
            yield _block(gathered)
            gathered = []
    if gathered:
        yield _block(gathered)


def _all(blocks: Iterable[_Block]) -> Iterator[str]:
    for block in blocks:
        for _, run in sorted((order, run) for run, order in enumerate(block.order)):
            start, end = block.name_starts[run], block.name_starts[run + 1]
            yield from (block.path(found.end()) for found in re.compile("\n").finditer(block.names, start, end))


class _Wanted(NamedTuple):
    """Requirement for a matching name."""

    anywhere: re.Pattern[str]
    """Expression that is found somewhere in the line of a name, or from the line feed before it on."""
    least: int
    """Letters of the name, at least, up to the end of what is found."""


_ANY = _Wanted(re.compile(r"\n(?=[^\n])"), 0)

_NAME_START, _WORD_START, _IN_NAME, _IN_PATH, _SCATTERED_IN_NAME, _SCATTERED = range(6)
"""Tiers of matches, the best first: where the query is in the path, or that its letters are there in order."""


class _Search:
    """One search, tier by tier, until no later one can add anything; narrows the candidates."""

    def __init__(self, candidates: _Candidates, is_cancelled: Callable[[], bool]) -> None:
        self._candidates = candidates
        self._blocks = candidates.blocks
        self._query = candidates.query
        self._is_cancelled = is_cancelled
        self._best = _Best()

    def run(self) -> _Best:
        """Search; raises SearchCancelled."""
        for _ in self._tiers():
            if self._best.is_full:
                break
        return self._best

    def _tiers(self) -> Iterator[None]:
        """Look for the matches of one tier after another."""
        query, literal = self._query, re.escape(self._query)
        in_name = "/" not in query
        if in_name:
            start = _Wanted(re.compile(f"\n{literal}"), len(query))
            self._in_names(_NAME_START, f"\n{query}", start)
            yield
            # A search for the text itself is many times as fast as one for what stands before it.
            word = _Wanted(re.compile(f"{literal}(?<={_BEFORE_WORD}{literal})"), len(query) + 1)
            self._in_names(_WORD_START, query, word)
            yield
            self._in_names(_IN_NAME, query, _Wanted(re.compile(literal), len(query)))
            yield
        self._in_folders()
        yield
        if len(query) > _LONGEST_SCATTERED:
            return
        if in_name:
            self._in_groups(_SCATTERED_IN_NAME, partial(self._letters_in_names, _scattered(query)))
            yield
        letters = "".join(f"(?:[^{letter}\n]*+{letter}()" for letter in map(re.escape, query))
        reach = re.compile(letters + ")?+" * len(query))
        rests = [_scattered(query[count:]) for count in range(len(query) + 1)]
        self._in_groups(_SCATTERED, partial(self._letters_in_paths, reach, rests))

    def _short_enough(self, numbers: Iterable[int]) -> Iterator[tuple[int, _Block]]:
        """Yield the blocks that have a path short enough to be among the best, with their numbers."""
        for number in numbers:
            self._give_way()
            block = self._blocks[number]
            if block.shortest_paths[0] <= self._best.room((number, 0, 0)):
                yield number, block

    def _give_way(self) -> None:
        yield_to_event_loop()
        if self._is_cancelled():
            raise SearchCancelled

    def _in_names(self, tier: int, needed: str, wanted: _Wanted) -> None:
        """Look for names, with a text that a match needs."""
        without = set()
        for number, block in self._short_enough(self._candidates.in_names):
            if self._query not in block.names:
                without.add(number)
            elif needed in block.names:
                self._take(tier, number, wanted, 0, len(block.order))
        self._candidates.in_names = [number for number in self._candidates.in_names if number not in without]

    def _in_folders(self) -> None:
        """Look for the query in folders, or with its last slash where folder and name meet."""
        before, slash, after = self._query.rpartition("/")
        for number, block in self._short_enough(range(len(self._blocks))):
            for run in _runs_with(block, self._query):
                self._take(_IN_PATH, number, _ANY, run, run + 1)
            if slash and after:
                wanted = _Wanted(re.compile(f"\n{re.escape(after)}"), len(after))
                for run in _runs_with(block, f"{before}/\n"):
                    self._take(_IN_PATH, number, wanted, run, run + 1)

    def _in_groups(self, tier: int, look: Callable[[int, int, int], bool]) -> None:
        """Look at the groups that may have a match of a tier, those of short paths first.

        Args:
            tier: Of the matches.
            look: Takes the matches in a block, given by its number, from one run up to another; returns whether there
                are any, also if they are too long to be among the best.
        """
        groups = self._candidates.groups(tier)
        has_letters = [
            all(letter in block.names or letter in block.folders for letter in self._query) for block in self._blocks
        ]
        narrowed: list[_Group] = []
        done = 0
        try:
            for group in groups:
                shortest, number, first, end = group
                if shortest > self._best.room((0, 0, 0)):
                    break
                self._give_way()
                done += 1
                if has_letters[number]:
                    lengths = self._blocks[number].shortest_paths
                    near = bisect_right(lengths, self._best.room((number, 0, 0)), first, end)
                    if look(number, first, near) or near < end:
                        narrowed.append(group)
        finally:
            self._candidates.scattered[tier] = [*narrowed, *groups[done:]]

    def _letters_in_names(self, wanted: _Wanted, number: int, first: int, end: int) -> bool:
        """Look for names that have the letters of the query in order."""
        block = self._blocks[number]
        if not wanted.anywhere.search(block.names, block.name_starts[first], block.name_starts[end]):
            return False
        self._take(_SCATTERED_IN_NAME, number, wanted, first, end)
        return True

    def _letters_in_paths(
        self, reach: re.Pattern[str], rests: Sequence[_Wanted], number: int, first: int, end: int
    ) -> bool:
        """Look for paths that have the letters of the query in order, the first of them in the folder.

        Args:
            reach: Takes the letters that a folder has in order; their number is that of the last group.
            rests: What a name must have, by the number of letters that its folder has.
            number: Of the block.
            first: The first run.
            end: The one after the last.
        """
        block, has_match = self._blocks[number], False
        names, starts, folders, folder_starts = block.names, block.name_starts, block.folders, block.folder_starts
        for run in range(first, end):
            found = reach.match(folders, folder_starts[run])
            if not found or not (count := found.lastindex):
                continue
            if rests[count].anywhere.search(names, starts[run], starts[run + 1]):
                has_match = True
                self._take(_SCATTERED, number, rests[count], run, run + 1)
        return has_match

    def _take(self, tier: int, number: int, wanted: _Wanted, first: int, end: int) -> None:
        """Take the names of neighbouring runs that match, and that are not too long to be among the best.

        Args:
            tier: Of the matches.
            number: Of the block.
            wanted: What a name must have.
            first: The first run.
            end: The one after the last.
        """
        best, block = self._best, self._blocks[number]
        starts, expression = block.name_starts, wanted.anywhere
        at = starts[first]
        if not best.is_full:
            at = self._take_found(tier, number, expression, at, starts[end] + 1)
        if not best.is_full:
            return
        room = best.room((number, 0, 0))
        end = bisect_right(block.shortest_paths, room, first, end)
        if starts[end] - at > _FEW:
            least = min(block.folder_lengths[first:end]) + wanted.least
            expression = _bounded(expression.pattern, max(0, room - least) // _ROOM_STEP + 1)
        self._take_found(tier, number, expression, at, starts[end] + 1)

    def _take_found(self, tier: int, number: int, wanted: re.Pattern[str], start: int, end: int) -> int:
        """Take the names in which an expression is found, at most until there are enough.

        Args:
            tier: Of the matches.
            number: Of the block.
            wanted: The expression.
            start: The line feed before the first name.
            end: Where the line of the last name ends.

        Returns:
            The line feed before the names that are left.
        """
        best, block = self._best, self._blocks[number]
        names, was_full = block.names, best.is_full
        for found in wanted.finditer(names, start, end):
            name = names.rfind("\n", 0, found.start() + 1) + 1
            line_end = names.index("\n", name)
            run = block.run_of(name)
            best.take(tier, (number, block.order[run], name), block.folder_lengths[run] + line_end - name)
            if best.is_full and not was_full:
                return line_end
        return end


@lru_cache(maxsize=512)
def _bounded(anywhere: str, steps: int) -> re.Pattern[str]:
    """Return an expression that finds what another does, with at most some steps of letters of the name after it."""
    return re.compile(f"{anywhere}(?=[^\n]{{0,{steps * _ROOM_STEP}}}\n)")


def _scattered(letters: str) -> _Wanted:
    """Letters in order, with anything between them."""
    if not letters:
        return _ANY
    first, *others = map(re.escape, letters)
    rest = "".join(f"[^{letter}\n]*+{letter}" for letter in others)
    return _Wanted(re.compile(f"{first}{rest}"), len(letters))


def _runs_with(block: _Block, text: str) -> list[int]:
    """Return the runs, in order, whose folder, with the line feed after it, has a text."""
    runs = []
    at = block.folders.find(text)
    while at >= 0:
        runs.append(bisect_right(block.folder_starts, at) - 1)
        at = block.folders.find(text, block.folder_starts[runs[-1] + 1])
    return runs
