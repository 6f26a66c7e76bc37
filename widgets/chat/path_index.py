"""Compact index of a workspace's paths with fuzzy search, for half a million paths.

Paths that share a folder stand together, the names in one text and the folders in another, with a line for each. So
a search is a few scans of long texts by `re` and `str.find`, of which most end early: only the best fifty are wanted,
and once there are as many, longer paths are passed over by the expression itself.
"""

import re
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from heapq import nsmallest
from itertools import chain, islice
from typing import NamedTuple

from app.concurrency import yield_to_event_loop

MAX_MATCHES = 50
"""Matches that are kept."""
_BLOCK = 2048
"""Paths in a block; between two of them a search gives way, or is given up."""
_PIECE = 256
"""Paths that are listed, or folders that are searched, before the thread gives way."""
_LONGEST_SCATTERED = 60
"""Letters of the longest query that is also looked for with others between its letters."""
_LONGEST = 1 << 31
_ROOM_STEP = 16
"""Step of the longest length of a name in an expression, so that fewer expressions are compiled."""
_SHORT_PARTS = (50, 8)
"""The shortest paths are searched first: those of one run in so many."""
_SAMPLES = 4096
"""Runs whose lengths are compared to tell which are short."""
_WORD_STARTS = "_-. "
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
    """Characters of the shortest path of each run."""
    shortest: int
    """Characters of the shortest path."""
    last: str
    """The last path."""

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


def _block(paths: Iterable[str]) -> _Block:
    names: list[str] = []
    folders: list[str] = []
    name_starts, folder_starts = array("I"), array("I")
    folder_lengths, shortest_paths = array("I"), array("I")
    at, folder_at, current, path = 0, 1, None, ""
    for path in paths:
        slash = path.rfind("/") + 1
        name = path[slash:]
        if path[:slash] != current:
            current = path[:slash]
            folders.append(current)
            name_starts.append(at)
            folder_starts.append(folder_at)
            folder_lengths.append(len(current.lower()))
            folder_at += folder_lengths[-1] + 1
            shortest_paths.append(_LONGEST)
        names.append(name)
        length = len(name.lower())
        at += length + 1
        shortest_paths[-1] = min(shortest_paths[-1], folder_lengths[-1] + length)
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
        folder_lengths,
        shortest_paths,
        min(shortest_paths),
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
        if len(self.found) >= (MAX_MATCHES if self.longest is None else 2 * MAX_MATCHES):
            self._trim()

    def start_again(self, tier: int) -> None:
        """Forget the matches of a tier, which will be found again in order, and take others as long as the last."""
        self.found = {at: match for at, match in self.found.items() if match[0] != tier}
        if self.longest is not None:
            self.longest += 1

    def _trim(self) -> None:
        kept = self.in_order()
        self.found = dict(kept)
        self.longest = kept[-1][1][1]

    def in_order(self) -> list[tuple[tuple[int, int], tuple[int, int]]]:
        """Return the best, best first."""
        return nsmallest(MAX_MATCHES, self.found.items(), key=lambda each: (*each[1], *each[0]))

    @property
    def is_full(self) -> bool:
        """Whether no later tier can add anything."""
        return self.longest is not None


class PathIndex:
    """Index of paths, searched by one thread while another refreshes it."""

    def __init__(self) -> None:
        self._blocks: tuple[_Block, ...] = ()
        self._narrow: tuple[tuple[_Block, ...], str, list[str]] | None = None
        """All matches of a query in these blocks, where they are few."""
        self._ruled_out: tuple[tuple[_Block, ...], str, _RuledOut] = ((), "", {})
        """Blocks in which the latest query has no match, and so none that begins with it."""

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
            GivenUp: `is_cancelled` said so, which is asked now and then.
        """
        blocks, query = self._blocks, query.lower()
        if not query:
            return list(islice(_all(blocks), MAX_MATCHES))
        if self._narrow is not None and self._narrow[0] is blocks and query.startswith(self._narrow[1]):
            kept = ((path.lower(), path) for path in self._narrow[2])
            ranked = [(rank_match(query, lower), path) for lower, path in kept if _fits(query, lower)]
            # Of the same rank, they are in order already.
            matches = [path for _, path in sorted(ranked, key=lambda each: each[0])]
            self._narrow = (blocks, query, [path for path in self._narrow[2] if path in set(matches)])
            return matches
        known, before, ruled_out = self._ruled_out
        # The search before may still be at work on a thread.
        ruled_out = {tier: found.copy() for tier, found in ruled_out.items()}
        if known is not blocks or not query.startswith(before):
            ruled_out = {_IN_NAME: set(), _SCATTERED_IN_NAME: set(), _SCATTERED: set()}
        self._ruled_out = blocks, query, ruled_out
        best = _Search(blocks, query, is_cancelled, ruled_out).run()
        found = [(at, blocks[at[0]].path(at[1])) for at, _ in best.in_order()]
        self._narrow = None if best.is_full else (blocks, query, [path for _, path in sorted(found)])
        return list(dict.fromkeys(path for _, path in found))


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
        yield from (block.path(found.end()) for found in re.finditer(r"\n(?=.)", block.names))


class _Wanted(NamedTuple):
    """Requirement for a matching name."""

    anywhere: str
    """Expression that is found somewhere in the line of a name, or from the line feed before it on."""
    least: int
    """Letters of the name, at least, up to the end of what is found."""


_ANY = _Wanted(r"\n(?=[^\n])", 0)

_IN_NAME, _IN_FOLDER, _SCATTERED_IN_NAME, _SCATTERED = 2, 3, 4, 5
"""Tiers of `rank_match` from the first in which a match of a query is also one without the query's last letters."""
_RuledOut = dict[int, set[int]]
"""Numbers of blocks without a match, by tier."""

_Look = Callable[[int, int, _Block], None]
"""Looks for matches of a tier in the block of a number."""


class _Search:
    """One search of all blocks, tier by tier as `rank` has them, until no later one can add anything."""

    def __init__(
        self, blocks: tuple[_Block, ...], query: str, given_up: Callable[[], bool], ruled_out: _RuledOut
    ) -> None:
        self._blocks = blocks
        self._query = query
        self._given_up = given_up
        self._ruled_out = ruled_out
        self._best = _Best()
        self._below = _LONGEST
        """Runs that have only longer paths are passed over."""
        self._has_match = False
        """Whether the block that is searched has a match, if there were not enough before."""

    def run(self) -> _Best:
        """Search; raises GivenUp."""
        query, literal = self._query, re.escape(self._query)
        tiers: dict[int, _Look] = {_IN_FOLDER: self._in_folders}
        if "/" not in query:
            tiers[0] = partial(self._in_names, needed=f"\n{query}", wanted=_Wanted(f"\n{literal}", len(query)))
            # A search for the text itself is many times as fast as one for what stands before it.
            word = _Wanted(f"{literal}(?<={_BEFORE_WORD}{literal})", len(query) + 1)
            tiers[1] = partial(self._in_names, needed=query, wanted=word)
            tiers[_IN_NAME] = partial(self._in_names, needed=query, wanted=_Wanted(literal, len(query)))
        if len(query) <= _LONGEST_SCATTERED:
            letters = "".join(f"(?:[^{letter}\n]*+{letter}()" for letter in map(re.escape, query))
            tiers[_SCATTERED] = partial(
                self._scattered_over_path,
                reach=re.compile(letters + ")?+" * len(query)),
                rests=[_scattered(query[count:]) for count in range(len(query) + 1)],
            )
            if "/" not in query:
                tiers[_SCATTERED_IN_NAME] = partial(self._in_names, needed="", wanted=_scattered(query))
        for tier in sorted(tiers):
            # Where each path costs much, a bound that the short ones have set spares most of the others.
            short = _short_lengths(self._blocks) if tier == _SCATTERED else []
            for below in [*short, _LONGEST]:
                self._best.start_again(tier)
                self._look_at_blocks(tier, tiers[tier], below)
                if self._best.longest is not None and self._best.longest < below:
                    break
            if self._best.is_full:
                break
        return self._best

    def _look_at_blocks(self, tier: int, look: _Look, below: int) -> None:
        """Look for matches of a tier in runs that have a path shorter than `below`."""
        query, ruled_out = self._query, self._ruled_out.get(max(tier, _IN_NAME), set())
        for number, block in enumerate(self._blocks):
            if number in ruled_out or block.shortest >= below:
                continue
            yield_to_event_loop()
            if self._given_up():
                raise SearchCancelled
            self._below = min(below, self._best.longest or _LONGEST)
            if block.shortest >= self._below:
                continue
            if (tier < _IN_NAME and query not in block.names) or (
                tier > _IN_FOLDER
                and any(letter not in block.names and letter not in block.folders for letter in query)
            ):
                ruled_out.add(number)
                continue
            self._has_match = self._best.is_full or below < _LONGEST
            look(tier, number, block)
            if tier > _IN_NAME and not self._has_match:
                ruled_out.add(number)

    def _in_names(self, tier: int, number: int, block: _Block, *, needed: str, wanted: _Wanted) -> None:
        """Look at the names of a block, if a text is in them of which a match needs one."""
        if needed in block.names:
            self._take_runs(tier, number, block, range(len(block.folder_lengths)), wanted)

    def _take(
        self, tier: int, number: int, block: _Block, wanted: _Wanted, start: int, end: int, folder: int
    ) -> None:
        """Take the names that match, and that are not too long to be among the best.

        Args:
            tier: As in `rank`.
            number: Of the block.
            block: Where to look.
            wanted: What a name must have.
            start: Where the first name begins.
            end: Where the line of the last name ends.
            folder: Characters of the shortest folder of these names.
        """
        best = self._best
        if not best.is_full:
            start = self._take_found(tier, number, block, re.compile(wanted.anywhere), start, end)
        room = (best.longest or 0) - 1 - folder - wanted.least
        if room >= 0 and start < end:
            bounded = _bounded(wanted.anywhere, -room // _ROOM_STEP * -_ROOM_STEP)
            self._take_found(tier, number, block, bounded, start, end)

    def _take_found(
        self, tier: int, number: int, block: _Block, wanted: re.Pattern[str], start: int, end: int
    ) -> int:
        """Take the names in which an expression is found, at most until there are enough; return where to go on."""
        names, best = block.names, self._best
        was_full = best.is_full
        for found in wanted.finditer(names, start - 1, end):
            self._has_match = True
            name = names.rfind("\n", 0, found.start() + 1) + 1
            line_end = names.index("\n", name)
            best.take(tier, number, name, block.folder_lengths[block.run_of(name)] + line_end - name)
            if best.is_full and not was_full:
                return line_end + 1
        return end

    def _in_folders(self, tier: int, number: int, block: _Block) -> None:
        """Look for the query in folders, or with its last slash where folder and name meet."""
        before, slash, after = self._query.rpartition("/")
        if self._query in block.folders:
            runs = {bisect_right(block.folder_starts, at) - 1 for at in _places(block.folders, self._query)}
            self._take_runs(tier, number, block, sorted(runs), _ANY)
        if slash and after and f"{before}/\n" in block.folders:
            runs = {bisect_right(block.folder_starts, at) - 1 for at in _places(block.folders, f"{before}/\n")}
            self._take_runs(tier, number, block, sorted(runs), _Wanted(f"\n{re.escape(after)}", len(after)))

    def _take_runs(self, tier: int, number: int, block: _Block, runs: Iterable[int], wanted: _Wanted) -> None:
        """Look at the names of some runs, given in order; neighbours are looked at together."""
        below, starts = self._below, block.name_starts
        if below < _LONGEST:
            runs = [run for run in runs if block.shortest_paths[run] < below]
        for first, end in _stretches(runs):
            length = min(block.folder_lengths[first:end])
            self._take(tier, number, block, wanted, starts[first] + 1, starts[end] + 1, length)

    def _scattered_over_path(
        self, tier: int, number: int, block: _Block, *, reach: re.Pattern[str], rests: Sequence[_Wanted]
    ) -> None:
        """Look for the letters of the query in order, the first of them in the folder.

        Args:
            tier: As in `rank_match`.
            number: Of the block.
            block: Where to look.
            reach: Takes the letters that a folder has in order; their number is that of its last group.
            rests: What a name must have, by the number of letters that its folder has.
        """
        search = [re.compile(rest.anywhere).search for rest in rests]
        names, starts, lengths = block.names, block.name_starts, block.shortest_paths
        for run, start in enumerate(block.folder_starts[:-1]):
            if lengths[run] >= self._below:
                continue
            found = reach.match(block.folders, start)
            if found is None or not (count := found.lastindex):
                continue
            if search[count](names, starts[run], starts[run + 1] + 1):
                self._take_runs(tier, number, block, [run], rests[count])


def _short_lengths(blocks: Iterable[_Block]) -> list[int]:
    """Return lengths of paths, in order, that the given parts of all runs stay below."""
    lengths = list(chain.from_iterable(block.shortest_paths for block in blocks))
    sample = sorted(lengths[:: len(lengths) // _SAMPLES + 1])
    return [sample[len(sample) // part] for part in _SHORT_PARTS] if sample else []


@lru_cache(maxsize=512)
def _bounded(anywhere: str, room: int) -> re.Pattern[str]:
    """Return an expression that finds what another does, with no more than some letters of the name after it."""
    return re.compile(f"{anywhere}(?=[^\n]{{0,{room}}}\n)")


def _stretches(numbers: Iterable[int]) -> Iterator[tuple[int, int]]:
    """The first of each row of numbers that follow one another, and the one after its last."""
    if isinstance(numbers, range):
        yield numbers.start, numbers.stop
        return
    first = end = -1
    for number in numbers:
        if number != end:
            if end > 0:
                yield first, end
            first = number
        end = number + 1
    if end > 0:
        yield first, end


def _fits(query: str, path: str) -> bool:
    return query in path or (len(query) <= _LONGEST_SCATTERED and is_subsequence(query, path))


def _scattered(letters: str) -> _Wanted:
    """Letters in order, with anything between them."""
    if not letters:
        return _ANY
    first, *others = map(re.escape, letters)
    rest = "".join(f"[^{letter}\n]*+{letter}" for letter in others)
    return _Wanted(f"{first}{rest}", len(letters))


def _places(text: str, part: str) -> Iterator[int]:
    at = text.find(part)
    while at >= 0:
        yield at
        at = text.find(part, at + 1)


def rank_match(query: str, path: str) -> int:
    """Return how well a lower-case path fits a query that it contains as a subsequence; smaller is better."""
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
    """Return whether all characters of the query are in the name, in order."""
    position = -1
    for character in query:
        position = name.find(character, position + 1)
        if position < 0:
            return False
    return True
