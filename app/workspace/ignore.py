"""Ignore rules of `.gitignore`, `.ignore` and `.signoffignore`, folder by folder like git.

The rules are those of git (gitignore, "PATTERN FORMAT"): the last match in a file wins, a file nearer to the path
wins over one farther up, and no rule includes a path below an ignored folder again. So a walk never enters an ignored
folder. In one folder `.signoffignore` wins over `.ignore`, and `.ignore` over `.gitignore`.

Most patterns are plain names or endings: dictionaries find them. The other patterns are matched in batches, from the
last to the first. This keeps a walk of 100,000 files fast, even where `!` patterns and others alternate.
"""

import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import lru_cache
from operator import itemgetter
from pathlib import Path

from msgspec import Struct

from app.workspace.git_repository import find_repository
from app.workspace.path_rules import (
    MAX_PATH_CHARACTERS,
    MAX_PATH_DEPTH,
    UnsafePath,
    WorkspaceClosedDuringWalk,
    check_path_component,
)
from app.workspace.reading import OpenFolderChain, read_regular_file
from app.workspace.wildmatch import IgnoreRule, ignore_rule_regex, parse_ignore_rule

IGNORE_FILES = (".signoffignore", ".ignore", ".gitignore")
"""Names of ignore files, the strongest first."""

_MAX_IGNORE_FILE_BYTES = 1024 * 1024
"""Maximum bytes of an ignore file that is read."""
_MAX_BATCH_CHARACTERS = 40_000
"""Characters of patterns that are compiled to one expression: about a thousand patterns of usual length."""


class _PatternTables:
    """Patterns that are all matched with names, or all with paths, each with its position in the ignore file.

    Most patterns require a folder name on the path, or the whole last name, its beginning or its ending. Tables find
    patterns by this text, so that only those whose text fits are tried.
    """

    __slots__ = ("_beginnings", "_endings", "_folders", "_last_folder", "_literals", "_names", "_others")

    def __init__(self, rules: Iterable[tuple[int, IgnoreRule]]) -> None:
        self._literals: dict[str, int] = {}
        folders: _RulesByText = {}
        names: _RulesByText = {}
        beginnings: _RulesByText = {}
        endings: _RulesByText = {}
        others: list[tuple[int, IgnoreRule]] = []
        for position, rule in rules:
            last_name = rule.last_component
            if rule.is_literal:
                self._literals[rule.text] = position
            elif folder := rule.literal_folder:
                folders.setdefault(folder, []).append((position, rule))
            elif last_name.whole:
                names.setdefault(last_name.beginning, []).append((position, rule))
            elif len(last_name.beginning) > len(last_name.ending):
                beginnings.setdefault(last_name.beginning, []).append((position, rule))
            elif last_name.ending:
                endings.setdefault(last_name.ending, []).append((position, rule))
            else:
                others.append((position, rule))
        self._folders = _make_groups(folders)
        self._last_folder: tuple[str, list[_PatternGroup]] = "", []
        """The folder of the last path, and the groups of the folders on it. Threads share it, so it is one value."""
        self._names = _make_groups(names)
        self._beginnings = _group_by_letter(beginnings, 0)
        self._endings = _group_by_letter(endings, -1)
        self._others = _PatternGroup(others) if others else None

    def last_position(self, text: str, name: str, after: int) -> int:
        """Return the position of the last matching pattern after `after`; `after` if there is none.

        Args:
            text: The path, or the name if all patterns are matched with names.
            name: The last part of the path.
            after: A position in the file, or -1.
        """
        # Empty tables are skipped, and the folder's groups kept: a walk comes here for every entry.
        if self._literals and (position := self._literals.get(text, -1)) > after:
            after = position
        if self._folders:
            folder = text[: -len(name)]
            last_folder, groups_on_path = self._last_folder
            if folder != last_folder:
                groups_on_path = [self._folders[part] for part in folder.split("/") if part in self._folders]
                self._last_folder = folder, groups_on_path
            for folder_group in groups_on_path:
                after = folder_group.last_position(text, after)
        if self._names and (group := self._names.get(name)) is not None:
            after = group.last_position(text, after)
        if self._endings:
            for length, groups in self._endings.get(name[-1:], ()):
                if (group := groups.get(name[-length:])) is not None:
                    after = group.last_position(text, after)
        if self._beginnings:
            for length, groups in self._beginnings.get(name[:1], ()):
                if (group := groups.get(name[:length])) is not None:
                    after = group.last_position(text, after)
        return after if self._others is None else self._others.last_position(text, after)


class _PatternGroup:
    """Patterns that are tried together, the last in the file first."""

    __slots__ = ("_batches", "_last_certain_position")

    def __init__(self, rules: Sequence[tuple[int, IgnoreRule]]) -> None:
        self._last_certain_position = -1
        """Position of the last pattern that needs no further match, because the group's table has compared all of
        it.
        """
        expressions: list[tuple[int, str]] = []
        for position, rule in rules:
            if rule.ending:
                self._last_certain_position = position
            elif (regex := ignore_rule_regex(rule)) is not None:
                expressions.append((position, regex))
        self._batches: list[_PatternBatch] = []
        while expressions:
            batch: list[tuple[int, str]] = []
            characters_left = _MAX_BATCH_CHARACTERS
            while expressions and characters_left > 0:
                batch.append(expressions.pop())
                characters_left -= len(batch[-1][1])
            self._batches.append(_PatternBatch(batch))

    def last_position(self, text: str, after: int) -> int:
        """Return the position of the last matching pattern after `after`; `after` if there is none."""
        if self._last_certain_position > after:
            after = self._last_certain_position
        for batch in self._batches:
            # The remaining batches have only earlier positions.
            if batch.last_position <= after:
                break
            if (position := batch.match(text)) is not None:
                return max(after, position)
        return after


class _PatternBatch:
    """Patterns as one alternation, the last in the file first, so that the first branch that matches decides."""

    __slots__ = ("_alternation", "_positions", "last_position")

    def __init__(self, expressions: Sequence[tuple[int, str]]) -> None:
        self._positions, branches = zip(*expressions, strict=True)
        self.last_position: int = self._positions[0]
        # The number of the empty group tells which branch has matched. The group is at the end of the branch, because
        # `re` skips most branches quickly if they begin with a letter.
        self._alternation: str | re.Pattern[str] = "|".join(rf"(?:{branch})\Z()" for branch in branches)

    def match(self, text: str) -> int | None:
        """Return the position of the last pattern that matches, or None."""
        if isinstance(self._alternation, str):
            # Compile at first use: there may be very many patterns, and the user may cancel meanwhile.
            self._alternation = re.compile(self._alternation, re.DOTALL)
        match = self._alternation.match(text)
        return self._positions[match.lastindex - 1] if match and match.lastindex else None


_RulesByText = dict[str, list[tuple[int, IgnoreRule]]]
"""Patterns with their positions, by a text that a matching path must have."""


def _make_groups(rules_by_text: _RulesByText) -> dict[str, _PatternGroup]:
    return {text: _PatternGroup(rules) for text, rules in rules_by_text.items()}


def _group_by_letter(
    rules_by_text: _RulesByText, index: int
) -> dict[str, Sequence[tuple[int, dict[str, _PatternGroup]]]]:
    """Group patterns by the letter at `index` of their text, then by the text's length, then by the text."""
    letters: dict[str, dict[int, _RulesByText]] = {}
    for text, rules in rules_by_text.items():
        letters.setdefault(text[index], {}).setdefault(len(text), {})[text] = rules
    return {
        letter: [(length, _make_groups(lengths[length])) for length in sorted(lengths)]
        for letter, lengths in letters.items()
    }


class IgnoreFilePatterns:
    """The patterns of an ignore file; the last one that matches decides, with or without `!`."""

    __slots__ = ("_folder_names", "_folder_paths", "_ignores", "_names", "_paths")

    def __init__(self, rules: Sequence[IgnoreRule]) -> None:
        def tables_of_kind(*, anchored: bool, folders_only: bool) -> _PatternTables | None:
            kind = (anchored, folders_only)
            numbered_rules = [item for item in enumerate(rules) if (item[1].anchored, item[1].folders_only) == kind]
            return _PatternTables(numbered_rules) if numbered_rules else None

        self._ignores = tuple(rule.ignores for rule in rules)
        self._names = tables_of_kind(anchored=False, folders_only=False)
        self._paths = tables_of_kind(anchored=True, folders_only=False)
        self._folder_names = tables_of_kind(anchored=False, folders_only=True)
        self._folder_paths = tables_of_kind(anchored=True, folders_only=True)

    def __bool__(self) -> bool:
        return bool(self._ignores)

    def verdict(self, path: str, name: str, is_folder: bool) -> bool | None:
        """Return whether the patterns ignore the path (True), include it again (False) or do not match it (None)."""
        last = -1
        if self._names:
            last = self._names.last_position(name, name, last)
        if self._paths:
            last = self._paths.last_position(path, name, last)
        if is_folder:
            if self._folder_names:
                last = self._folder_names.last_position(name, name, last)
            if self._folder_paths:
                last = self._folder_paths.last_position(path, name, last)
        return None if last < 0 else self._ignores[last]


class FolderIgnorePatterns(Struct, frozen=True):
    """The patterns of one ignore file, and the folder to which they are relative."""

    patterns: IgnoreFilePatterns
    folder_length: int = 0
    """Length of the workspace path of the ignore file's folder, with the slash: it is cut off before matching."""
    path_to_root: str = ""
    """For an ignore file above the workspace: the path from there to the root, with a trailing slash."""

    def verdict(self, path: str, name: str, is_folder: bool) -> bool | None:
        """Return whether the patterns ignore the path (True), include it again (False) or do not match it (None)."""
        path = _one_character_a_byte(self.path_to_root + path[self.folder_length :])
        return self.patterns.verdict(path, _one_character_a_byte(name), is_folder)


Rules = tuple[FolderIgnorePatterns, ...]
"""The ignore files that apply in a folder, the strongest first."""


def is_entry_itself_ignored(rules: Rules, path: str, name: str, is_folder: bool) -> bool:
    """Return whether the entry itself is ignored; its parent folders are not checked."""
    for file in rules:
        verdict = file.verdict(path, name, is_folder)
        if verdict is not None:
            return verdict
    return False


def read_ignore_rules_above_workspace(root: Path, file_names: Collection[str] = IGNORE_FILES) -> Rules:
    """Return the rules of the ignore files in the folders above the workspace, and of `.git/info/exclude`."""
    repository = find_repository(root)
    if repository is None:
        return ()
    rules: Rules = ()
    exclude = compile_ignore_patterns(read_ignore_file_text(repository.shared / "info" / "exclude"))
    folders = root.relative_to(repository.top).parts
    if exclude:
        rules = (FolderIgnorePatterns(exclude, path_to_root="".join(f"{part}/" for part in folders)),)
    for depth in range(len(folders)):
        path_to_root = "".join(f"{part}/" for part in folders[depth:])
        rules = _read_folder_rules(repository.top.joinpath(*folders[:depth]), 0, path_to_root, file_names) + rules
    return rules


def ignore_rules_for_folder(root: Path, folder: str) -> Rules:
    """Return the rules that apply in a folder of the workspace.

    Args:
        folder: Relative to the workspace; empty for the root.
    """
    rules = _read_folder_rules(root, 0) + read_ignore_rules_above_workspace(root)
    parts = folder.split("/") if folder else []
    for depth in range(len(parts)):
        path = "/".join(parts[: depth + 1])
        rules = _read_folder_rules(root / path, len(path) + 1) + rules
    return rules


def read_ignore_rules_of_file(path: Path) -> Rules:
    """Return the rules of one ignore file, whose patterns are relative to the workspace root."""
    patterns = compile_ignore_patterns(read_ignore_file_text(path))
    return (FolderIgnorePatterns(patterns),) if patterns else ()


def walk_files(
    root: Path,
    start_folder: str,
    is_readable_link: Callable[[str], bool],
    is_off_limits: Callable[[str], bool],
    is_cancelled: Callable[[], bool],
    is_closed: Callable[[], bool],
    *,
    yield_folders: bool = False,
) -> Iterator[str]:
    """Yield the sorted paths of all files (or folders) below a folder that no ignore rule excludes.

    Args:
        start_folder: The folder to start in, links resolved; empty for the root.
        is_readable_link: Returns whether the link at a path leads to a file that may be read.
        is_off_limits: Returns whether a path is off limits.
        is_cancelled: Called at every entry; once it returns True, the walk ends.
        is_closed: Called at every entry; once it returns True, the walk raises WorkspaceClosedDuringWalk.
        yield_folders: Yield the folders instead of the files.
    """
    parent = start_folder.rpartition("/")[0]
    rules_above = ignore_rules_for_folder(root, parent) if start_folder else read_ignore_rules_above_workspace(root)
    chain = OpenFolderChain(root)
    try:
        scan = _FolderScanner(chain, is_readable_link, is_off_limits, is_cancelled, is_closed)
        stack = [scan.read_entries(start_folder, rules_above)]
        while stack:
            for path, rules in stack[-1]:
                if is_cancelled():
                    return
                if (rules is not None) is yield_folders:
                    yield path
                if rules is not None:
                    stack.append(scan.read_entries(path, rules))
                    break
            else:
                stack.pop()
    finally:
        chain.close()


class _FolderScanner(Struct, frozen=True):
    """Reads the entries of one folder at a time."""

    chain: OpenFolderChain
    is_readable_link: Callable[[str], bool]
    is_off_limits: Callable[[str], bool]
    is_cancelled: Callable[[], bool]
    is_closed: Callable[[], bool]

    def read_entries(self, folder: str, rules_above: Rules) -> Iterator[tuple[str, Rules | None]]:
        """Return the files, each with None, and the sub-folders, each with the rules from above it, sorted by
        path.
        """
        prefix = f"{folder}/" if folder else ""
        if folder.count("/") >= MAX_PATH_DEPTH - 1:
            # `split_and_check_path` refuses every path in this folder.
            return iter(())
        try:
            descriptor = self.chain.open_folder(folder)
            with os.scandir(descriptor) as scan:
                dir_entries = list(scan)
        except OSError:
            return iter(())
        ignore_files = {entry.name for entry in dir_entries if entry.name in IGNORE_FILES}
        rules = _read_folder_rules(descriptor, len(prefix), names=ignore_files) + rules_above
        entries: list[tuple[str, str, Rules | None]] = []
        is_closed, is_cancelled, is_off_limits = self.is_closed, self.is_cancelled, self.is_off_limits
        for entry in dir_entries:
            if is_closed():
                raise WorkspaceClosedDuringWalk("The workspace is closed.")
            if is_cancelled():
                return iter(())
            name = entry.name
            if not _is_valid_name(name):
                continue
            path = prefix + name
            try:
                is_folder = entry.is_dir(follow_symlinks=False)
                if (rules and is_entry_itself_ignored(rules, path, name, is_folder)) or is_off_limits(path):
                    continue
                if is_folder:
                    entries.append((f"{name}/", path, rules))
                elif entry.is_file(follow_symlinks=False) or (entry.is_symlink() and self.is_readable_link(path)):
                    entries.append((name, path, None))
            except OSError:
                continue
        entries.sort(key=itemgetter(0))
        return iter([(path, entry_rules) for _, path, entry_rules in entries])


def _is_valid_name(name: str) -> bool:
    """Return whether `Workspace.normalize_path` accepts the name."""
    if name.isascii() and name.isprintable() and name[0] != "." and "\\" not in name and "~" not in name:
        return True
    try:
        check_path_component(name)
    except UnsafePath:
        return False
    return True


def _read_folder_rules(
    folder: Path | int, folder_length: int, path_to_root: str = "", names: Collection[str] = IGNORE_FILES
) -> Rules:
    """Return the rules of the ignore files directly in a folder: a path or a descriptor. Read only `names`."""
    files = []
    for name in IGNORE_FILES:
        if name not in names:
            continue
        text = (
            read_ignore_file_text(name, folder) if isinstance(folder, int) else read_ignore_file_text(folder / name)
        )
        if patterns := compile_ignore_patterns(text):
            files.append(FolderIgnorePatterns(patterns, folder_length, path_to_root))
    return tuple(files)


def read_ignore_file_text(path: str | Path, folder_descriptor: int | None = None) -> str:
    """Return the text of an ignore file; empty for a link or a special file, as in git, and if it is too large.

    The first part of a large file could ignore what its end does not.

    Args:
        path: The file, or its name in `folder_descriptor`.
    """
    try:
        content, _ = read_regular_file(path, _MAX_IGNORE_FILE_BYTES, folder_descriptor=folder_descriptor)
    except OSError:
        return ""
    return content.decode("utf-8-sig", "surrogateescape")


@lru_cache(maxsize=256)
def compile_ignore_patterns(text: str) -> IgnoreFilePatterns:
    """Return the patterns in the text of an ignore file, without those that git discards."""
    return IgnoreFilePatterns(
        [
            rule
            for line in _one_character_a_byte(text).split("\n")
            if (rule := parse_ignore_rule(line)) and len(rule.text) <= MAX_PATH_CHARACTERS
        ]
    )


def _one_character_a_byte(text: str) -> str:
    """Return a text with one character for each byte of its UTF-8, because git matches bytes."""
    return text if text.isascii() else text.encode("utf-8", "surrogateescape").decode("latin-1")
