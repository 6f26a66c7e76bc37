"""Whether git leaves a path alone: ignored by its rules as they are on disk, and not tracked all the same."""

import os
import re
from functools import cached_property
from pathlib import Path

from app.workspace.git_index import tracked_paths
from app.workspace.ignore import Rules, ignored, rules_in, rules_of_file
from app.workspace.path_rules import names_at_or_below
from app.workspace.reading import read_file

_RULES = (".gitignore",)
"""Of the files with ignore patterns, the one that git reads."""
_EXCLUDES_FILE = re.compile(r"^\s*excludesfile\s*=\s*\"?([^\"\n]+?)\"?\s*$", re.IGNORECASE | re.MULTILINE)


class GitIgnored:
    """Answers for one workspace, as it was when first asked."""

    def __init__(self, root: Path) -> None:
        """Nothing is read yet."""
        self._root = root
        self._rules: dict[str, Rules] = {}

    def entry(self, path: str, *, is_folder: bool) -> bool:
        """Whether a rule ignores the entry itself; whoever asks knows that nothing above it is ignored."""
        folder, _, name = path.rpartition("/")
        if folder not in self._rules:
            self._rules[folder] = rules_in(self._root, folder, _RULES) + self._of_the_user
        return ignored(self._rules[folder], path, name, is_folder)

    def tracks(self, path: str) -> bool:
        """Whether git tracks the path, or anything below it."""
        return names_at_or_below(self._tracked, path)

    @cached_property
    def _tracked(self) -> list[str]:
        return sorted(tracked_paths(self._root))

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
