"""Whether git leaves a path alone: ignored by its rules as they are on disk, and not tracked all the same."""

import os
import re
from collections.abc import Iterable, Mapping
from functools import cached_property
from pathlib import Path

from app.workspace.git_index import tracked_paths
from app.workspace.ignore import (
    IgnoreFile,
    Rules,
    compile_patterns,
    ignored,
    patterns_in,
    rules_above,
    rules_of_file,
)
from app.workspace.path_rules import names_at_or_below
from app.workspace.reading import read_file

RULES = ".gitignore"
"""Of the files with ignore patterns, the one that git reads."""
_EXCLUDES_FILE = re.compile(
    r"^[^\S\n]*excludesfile[^\S\n]*=[^\S\n]*\"?([^\"\n]+?)\"?[^\S\n]*$", re.IGNORECASE | re.MULTILINE
)


class GitIgnored:
    """Answers for one workspace; each folder's rules are as they were when it was first asked about."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._rules: dict[str, Rules] = {}
        self._patterns: dict[str, str] = {}
        self._fixed = False

    def entry(self, path: str, *, is_folder: bool) -> bool:
        """Whether a rule ignores the entry itself; whoever asks knows that nothing above it is ignored."""
        folder, _, name = path.rpartition("/")
        return ignored(self._rules_in(folder), path, name, is_folder)

    def _rules_in(self, folder: str) -> Rules:
        if folder not in self._rules:
            above = self._rules_in(folder.rpartition("/")[0]) if folder else self._from_outside
            self._rules[folder] = self._own_rules(folder) + above
        return self._rules[folder]

    def _own_rules(self, folder: str) -> Rules:
        """The rules of the file in a folder."""
        if not self._fixed and (patterns := patterns_in(self._root / folder / RULES)):
            self._patterns[folder] = patterns
        patterns = self._patterns.get(folder, "")
        return (IgnoreFile(compile_patterns(patterns), len(folder) + 1 if folder else 0),) if patterns else ()

    def fix(self) -> Mapping[str, str]:
        """Read no more rules: folders that have not been asked about have none of their own from now on.

        Returns:
            The rules of each folder that has some, for `restore`.
        """
        self._rules_in("")
        # Read now, whenever it is asked for.
        self.tracks("")
        self._fixed = True
        return self._patterns

    def restore(self, patterns: Mapping[str, str], tracked: Iterable[str]) -> None:
        """Be as one was that was fixed.

        Args:
            patterns: What `fix` has returned.
            tracked: All that it did not ignore.
        """
        self._patterns, self._fixed = dict(patterns), True
        self._tracked = sorted(tracked)

    def tracks(self, path: str) -> bool:
        """Whether git tracks the path, or anything below it."""
        return names_at_or_below(self._tracked, path)

    @cached_property
    def _tracked(self) -> list[str]:
        return sorted(tracked_paths(self._root))

    @cached_property
    def _from_outside(self) -> Rules:
        return rules_above(self._root, (RULES,)) + self._of_the_user

    @cached_property
    def _of_the_user(self) -> Rules:
        """The rules that the user has for every repository, found as git finds them."""
        home = Path.home()
        configs = Path(os.environ.get("XDG_CONFIG_HOME") or home / ".config") / "git"
        named = configs / "ignore"
        instead = os.environ.get("GIT_CONFIG_GLOBAL")
        for config in (home / ".gitconfig", configs / "config") if instead is None else (Path(instead),):
            try:
                text = read_file(config, 1 << 20, head=True)[0].decode("utf-8", "replace")
            except OSError:
                continue
            if found := _EXCLUDES_FILE.search(text):
                named = Path(found[1]).expanduser()
                break
        return rules_of_file(named)
