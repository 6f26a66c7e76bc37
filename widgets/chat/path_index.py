"""Compact index of a workspace's paths with fuzzy search, for half a million paths.

Paths with the same folder are stored together. One text contains the names and another the folders, one per line. A
search is a few scans of long texts with `re` and `str.find`. Most searches end early: only the best fifty matches are
needed, and after that longer paths are skipped. If the user extends the query, parts without a match stay excluded.
"""

import re
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache, partial
from heapq import nsmallest
from itertools import chain, groupby, islice
from typing import NamedTuple

from msgspec import Struct, field

from app.concurrency import wait_while_event_loop_busy

MAX_MATCHES = 50
"""Maximum number of matches."""
_PATHS_PER_BLOCK = 2048
"""Paths in a block. Between blocks, or groups of them, a search yields the CPU and can be cancelled."""
_PATHS_PER_SLICE = 256
"""Paths that are listed before the thread yields the CPU."""
_MAX_SCATTERED_CHARACTERS = 60
"""Maximum length of a query whose letters may match with other letters between them."""
_MAX_LENGTH = 1 << 31
_MIN_COMPILED_CHARACTERS = 2048
"""Characters of names below which a search costs less than compiling an expression with a length limit."""
_ROOM_STEP = 16
"""Step of the length limits in expressions, so that fewer expressions are compiled."""
_LENGTH_STEP = 16
"""The shortest paths of the runs in a group differ by less than this."""
_BEFORE_WORD = r"[_\-. ]"


class SearchCancelled(Exception):
    """The search was cancelled, because its result is no longer needed."""


class _Block(Struct, frozen=True):
    """Neighbouring paths, in lower case for the search and in their real case for the result."""

    names: str
    """A line for each path, with a line feed before the first and after the last."""
    folders: str
    """A line for each run of paths with the same folder; it ends with a slash and is empty for the root."""
    real_names: str
    real_folders: str
    name_starts: "array[int]"
    """Index in `names` of the line feed before each run, and of the end."""
    folder_starts: "array[int]"
    """Index in `folders` of the start of each line, and of the end."""
    folder_lengths: "array[int]"
    """Length of each run's folder, with its slash."""
    shortest_paths: "array[int]"
    """Length of the shortest path of each run, in ascending order."""
    order: "array[int]"
    """Position of each run of the block in listing order."""
    last: str
    """The path that was listed last."""

    def run_of(self, start: int) -> int:
        """Return the number of the run that contains the name at an index of `names`."""
        return bisect_right(self.name_starts, start - 1) - 1

    def path(self, start: int) -> str:
        """Return the path in its real case for the name at an index of `names`."""
        run = self.run_of(start)
        folder_start, name_start = self.folder_starts[run], start
        if len(self.names) != len(self.real_names) or len(self.folders) != len(self.real_folders):
            # A few letters have more characters in lower case, so the indices differ.
            line = self.names.count("\n", 0, start)
            return self.real_folders.split("\n")[run + 1] + self.real_names.split("\n")[line]
        folder = self.real_folders[folder_start : self.folder_starts[run + 1] - 1]
        return folder + self.real_names[name_start : self.real_names.index("\n", name_start)]


def _make_block(paths: Sequence[str]) -> _Block:
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


_NamePosition = tuple[int, int, int]
"""(block number, order of the run, index of the name in the block's names); sorted in listing order."""


class _BestMatches(Struct):
    """The best matches found so far."""

    found: dict[_NamePosition, tuple[int, int]] = field(default_factory=dict)
    """(tier, length) by place."""
    last: tuple[int, _NamePosition] | None = None
    """(length, place) of the worst of the best matches; None until there are enough."""

    def max_length_at(self, name_position: _NamePosition) -> int:
        """Return the maximum length of a path at this place, or after it, that can still be among the best."""
        if self.last is None:
            return _MAX_LENGTH
        length, last_position = self.last
        return length if name_position < last_position else length - 1

    def add_match(self, tier: int, name_position: _NamePosition, length: int) -> None:
        """Add a match, unless it was found in an earlier tier."""
        if length > self.max_length_at(name_position):
            return
        self.found.setdefault(name_position, (tier, length))
        if len(self.found) >= (2 * MAX_MATCHES if self.is_full else MAX_MATCHES):
            best = self.in_order()
            self.found = dict(best)
            name_position, (_, length) = best[-1]
            self.last = length, name_position

    def in_order(self) -> list[tuple[_NamePosition, tuple[int, int]]]:
        """Return the best matches, best first."""
        return nsmallest(MAX_MATCHES, self.found.items(), key=lambda each: (*each[1], *each[0]))

    @property
    def is_full(self) -> bool:
        """Return whether no later tier can add a match."""
        return self.last is not None


class _RunGroup(NamedTuple):
    """Neighbouring runs of a block whose shortest paths have similar lengths."""

    shortest: int
    """Length of the shortest path."""
    number: int
    """Number of the block."""
    first: int
    """The first run."""
    end: int
    """The run after the last."""


def _make_groups(blocks: Iterable[_Block]) -> Iterator[_RunGroup]:
    for number, block in enumerate(blocks):
        first, lengths = 0, block.shortest_paths
        while first < len(lengths):
            end = bisect_left(lengths, lengths[first] + _LENGTH_STEP, first)
            yield _RunGroup(lengths[first], number, first, end)
            first = end


class _Candidates(Struct):
    """Where a query may match; the same places limit all queries that begin with it."""

    blocks: tuple[_Block, ...]
    query: str
    in_names: Sequence[int]
    """Numbers of the blocks that have the query in a name."""
    scattered: dict[int, Sequence[_RunGroup]] = field(default_factory=dict)
    """Groups that may match, by tier and sorted by shortest path; for a missing tier, all groups may match."""

    def groups(self, tier: int) -> Sequence[_RunGroup]:
        """Return the groups that may have a match of a tier, sorted by shortest path."""
        if tier in self.scattered:
            return self.scattered[tier]
        return sorted(_make_groups(self.blocks))


class PathIndex:
    """Index of paths; one thread can search it while another rebuilds it."""

    def __init__(self) -> None:
        self._blocks: tuple[_Block, ...] = ()
        self._candidates = _Candidates((), "", ())
        """Candidates of the latest query."""

    def rebuild(self, paths: Iterable[str], is_cancelled: Callable[[], bool] = lambda: False) -> None:
        """List the paths again and replace the index block by block.

        Args:
            paths: All paths, in the order in which equal matches are offered.
            is_cancelled: If it returns True, the rest of the index stays as it was.
        """
        new: list[_Block] = []
        old = list(self._blocks)
        for block in _make_blocks(paths):
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
            SearchCancelled: `is_cancelled` returned True; it is called between blocks.
        """
        blocks, query = self._blocks, query.lower()
        if not query:
            return list(islice(_all_candidates(blocks), MAX_MATCHES))
        # A previous search may still run in a thread, so its candidates are replaced, not changed.
        previous = self._candidates
        if previous.blocks is blocks and query.startswith(previous.query):
            candidates = _Candidates(blocks, query, previous.in_names, previous.scattered.copy())
        else:
            candidates = _Candidates(blocks, query, range(len(blocks)))
        try:
            matches = _Search(candidates, is_cancelled).run()
        finally:
            self._candidates = candidates
        return list(dict.fromkeys(blocks[number].path(start) for (number, _, start), _ in matches.in_order()))


def _make_blocks(paths: Iterable[str]) -> Iterator[_Block]:
    paths = iter(paths)
    block_paths: list[str] = []
    while piece := list(islice(paths, _PATHS_PER_SLICE)):
        wait_while_event_loop_busy()
        block_paths += piece
        if len(block_paths) >= _PATHS_PER_BLOCK:
            yield _make_block(block_paths)
            block_paths = []
    if block_paths:
        yield _make_block(block_paths)


def _all_candidates(blocks: Iterable[_Block]) -> Iterator[str]:
    for block in blocks:
        for _, run in sorted((order, run) for run, order in enumerate(block.order)):
            start, end = block.name_starts[run], block.name_starts[run + 1]
            yield from (block.path(found.end()) for found in re.compile("\n").finditer(block.names, start, end))


class _NameRequirement(NamedTuple):
    """Requirement for a matching name."""

    pattern: re.Pattern[str]
    """Expression to find in a name's line, which may include the line feed before it."""
    min_letters: int
    """Minimum number of the name's letters up to the end of the match."""


_ANY_NAME = _NameRequirement(re.compile(r"\n(?=[^\n])"), 0)

_NAME_START, _WORD_START, _IN_NAME, _IN_PATH, _SCATTERED_IN_NAME, _SCATTERED = range(6)
"""Tiers of matches, best first: by position of the query in the path, or only its letters in order."""


class _Search:
    """One search, tier by tier, until no later tier can add a match; narrows the candidates."""

    def __init__(self, candidates: _Candidates, is_cancelled: Callable[[], bool]) -> None:
        self._candidates = candidates
        self._blocks = candidates.blocks
        self._query = candidates.query
        self._is_cancelled = is_cancelled
        self._best = _BestMatches()

    def run(self) -> _BestMatches:
        """Search and return the best matches.

        Raises:
            SearchCancelled: The search was cancelled.
        """
        for _ in self._search_tiers():
            if self._best.is_full:
                break
        return self._best

    def _search_tiers(self) -> Iterator[None]:
        """Search one tier after each `next`."""
        query, literal = self._query, re.escape(self._query)
        in_name = "/" not in query
        if in_name:
            start = _NameRequirement(re.compile(f"\n{literal}"), len(query))
            self._search_names(_NAME_START, f"\n{query}", start)
            yield
            # A search for the text itself is many times faster than one that checks the character before it first.
            word = _NameRequirement(re.compile(f"{literal}(?<={_BEFORE_WORD}{literal})"), len(query) + 1)
            self._search_names(_WORD_START, query, word)
            yield
            self._search_names(_IN_NAME, query, _NameRequirement(re.compile(literal), len(query)))
            yield
        self._search_folders()
        yield
        if len(query) > _MAX_SCATTERED_CHARACTERS:
            return
        if in_name:
            self._search_groups(
                _SCATTERED_IN_NAME, partial(self._search_letters_in_names, _scattered_requirement(query))
            )
            yield
        letters = "".join(f"(?:[^{letter}\n]*+{letter}()" for letter in map(re.escape, query))
        folder_pattern = re.compile(letters + ")?+" * len(query))
        requirements = [_scattered_requirement(query[count:]) for count in range(len(query) + 1)]
        self._search_groups(_SCATTERED, partial(self._search_letters_in_paths, folder_pattern, requirements))

    def _blocks_with_short_paths(self, numbers: Iterable[int]) -> Iterator[tuple[int, _Block]]:
        """Yield the blocks with a path that is short enough to be among the best, with their numbers."""
        for number in numbers:
            self._yield_cpu()
            block = self._blocks[number]
            if block.shortest_paths[0] <= self._best.max_length_at((number, 0, 0)):
                yield number, block

    def _yield_cpu(self) -> None:
        wait_while_event_loop_busy()
        if self._is_cancelled():
            raise SearchCancelled

    def _search_names(self, tier: int, required_text: str, requirement: _NameRequirement) -> None:
        """Search the names; only blocks that contain `required_text` are scanned."""
        without_query = set()
        for number, block in self._blocks_with_short_paths(self._candidates.in_names):
            if self._query not in block.names:
                without_query.add(number)
            elif required_text in block.names:
                self._add_matching_names(tier, number, requirement, 0, len(block.order))
        self._candidates.in_names = [number for number in self._candidates.in_names if number not in without_query]

    def _search_folders(self) -> None:
        """Search the folders; a query with a slash may also match at the border of folder and name."""
        before, slash, after = self._query.rpartition("/")
        for number, block in self._blocks_with_short_paths(range(len(self._blocks))):
            for run in _runs_in_folders_with(block, self._query):
                self._add_matching_names(_IN_PATH, number, _ANY_NAME, run, run + 1)
            if slash and after:
                requirement = _NameRequirement(re.compile(f"\n{re.escape(after)}"), len(after))
                for run in _runs_in_folders_with(block, f"{before}/\n"):
                    self._add_matching_names(_IN_PATH, number, requirement, run, run + 1)

    def _search_groups(self, tier: int, add_matches: Callable[[int, int, int], bool]) -> None:
        """Search the groups that may have a match of a tier, shortest paths first.

        Args:
            add_matches: Adds the matches of a block (by number) from one run up to another; returns whether there
                are any, even if they are too long to be among the best.
        """
        groups = self._candidates.groups(tier)
        has_letters = [
            all(letter in block.names or letter in block.folders for letter in self._query) for block in self._blocks
        ]
        narrowed: list[_RunGroup] = []
        searched_count = 0
        try:
            for group in groups:
                shortest, number, first, end = group
                if shortest > self._best.max_length_at((0, 0, 0)):
                    break
                self._yield_cpu()
                searched_count += 1
                if has_letters[number]:
                    lengths = self._blocks[number].shortest_paths
                    near = bisect_right(lengths, self._best.max_length_at((number, 0, 0)), first, end)
                    if add_matches(number, first, near) or near < end:
                        narrowed.append(group)
        finally:
            self._candidates.scattered[tier] = [*narrowed, *groups[searched_count:]]

    def _search_letters_in_names(self, requirement: _NameRequirement, number: int, first: int, end: int) -> bool:
        """Search for names that contain the letters of the query in order."""
        block = self._blocks[number]
        if not requirement.pattern.search(block.names, block.name_starts[first], block.name_starts[end]):
            return False
        self._add_matching_names(_SCATTERED_IN_NAME, number, requirement, first, end)
        return True

    def _search_letters_in_paths(
        self,
        folder_pattern: re.Pattern[str],
        requirements: Sequence[_NameRequirement],
        number: int,
        first: int,
        end: int,
    ) -> bool:
        """Search for paths that contain the letters of the query in order, the first of them in the folder.

        Args:
            folder_pattern: Matches the query's letters in a folder; the number of the last group is the number of
                matched letters.
            requirements: Requirement for the name, by the number of letters in the folder.
        """
        block, has_match = self._blocks[number], False
        names, starts, folders, folder_starts = block.names, block.name_starts, block.folders, block.folder_starts
        for run in range(first, end):
            match = folder_pattern.match(folders, folder_starts[run])
            if not match or not (count := match.lastindex):
                continue
            if requirements[count].pattern.search(names, starts[run], starts[run + 1]):
                has_match = True
                self._add_matching_names(_SCATTERED, number, requirements[count], run, run + 1)
        return has_match

    def _add_matching_names(
        self, tier: int, number: int, requirement: _NameRequirement, first: int, end: int
    ) -> None:
        """Add the matching names of the runs from `first` up to `end` that may be among the best.

        `number` is the number of the block.
        """
        best, block = self._best, self._blocks[number]
        starts, expression = block.name_starts, requirement.pattern
        next_name = starts[first]
        if not best.is_full:
            next_name = self._add_pattern_matches(tier, number, expression, next_name, starts[end] + 1)
        if not best.is_full:
            return
        max_length = best.max_length_at((number, 0, 0))
        end = bisect_right(block.shortest_paths, max_length, first, end)
        if starts[end] - next_name > _MIN_COMPILED_CHARACTERS:
            min_length = min(block.folder_lengths[first:end]) + requirement.min_letters
            expression = _limit_length(expression.pattern, max(0, max_length - min_length) // _ROOM_STEP + 1)
        self._add_pattern_matches(tier, number, expression, next_name, starts[end] + 1)

    def _add_pattern_matches(self, tier: int, number: int, expression: re.Pattern[str], start: int, end: int) -> int:
        """Add the names that match an expression, until there are enough.

        Args:
            start: Index of the line feed before the first name.
            end: Index of the end of the last name's line.

        Returns:
            Index of the line feed before the remaining names.
        """
        best, block = self._best, self._blocks[number]
        names, was_full = block.names, best.is_full
        for match in expression.finditer(names, start, end):
            name = names.rfind("\n", 0, match.start() + 1) + 1
            line_end = names.index("\n", name)
            run = block.run_of(name)
            best.add_match(tier, (number, block.order[run], name), block.folder_lengths[run] + line_end - name)
            if best.is_full and not was_full:
                return line_end
        return end


@lru_cache(maxsize=512)
def _limit_length(pattern: str, steps: int) -> re.Pattern[str]:
    """Return an expression that also limits the name's length after the match to some steps."""
    return re.compile(f"{pattern}(?=[^\n]{{0,{steps * _ROOM_STEP}}}\n)")


def _scattered_requirement(letters: str) -> _NameRequirement:
    """Return the requirement for letters in order, with any letters between them."""
    if not letters:
        return _ANY_NAME
    first, *others = map(re.escape, letters)
    other_letters = "".join(f"[^{letter}\n]*+{letter}" for letter in others)
    return _NameRequirement(re.compile(f"{first}{other_letters}"), len(letters))


def _runs_in_folders_with(block: _Block, text: str) -> list[int]:
    """Return the runs, in order, whose folder contains a text; the line feed after the folder counts too."""
    runs = []
    position = block.folders.find(text)
    while position >= 0:
        runs.append(bisect_right(block.folder_starts, position) - 1)
        position = block.folders.find(text, block.folder_starts[runs[-1] + 1])
    return runs
