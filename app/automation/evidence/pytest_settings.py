"""Reads from a workspace's files in which folders pytest looks for tests."""

import configparser
from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from typing import Any

from app.config.toml import parse_toml

# In the order of https://docs.pytest.org/en/stable/reference/customize.html
_INI_FILES = (
    ("pytest.ini", "pytest"),
    (".pytest.ini", "pytest"),
    ("pyproject.toml", ""),
    ("tox.ini", "pytest"),
    ("setup.cfg", "tool:pytest"),
)


def filter_by_test_paths(tests: Sequence[str], read: Callable[[str], str]) -> tuple[str, ...]:
    """Return the test files that pytest collects where it is given no names.

    Args:
        tests: Paths in the workspace.
        read: Gives the text of a file; empty where it can't be read.
    """
    folders = [folder.removeprefix("./").strip("/") for folder in _test_paths(read)]
    inside = [path for path in tests if any(_is_inside(path, folder) for folder in folders)]
    return tuple(inside or tests)


def _is_inside(path: str, folder: str) -> bool:
    return folder in ("", ".", path) or fnmatchcase(path, f"{folder}/*") or fnmatchcase(path, folder)


def _test_paths(read: Callable[[str], str]) -> Sequence[str]:
    """Return `testpaths` from the first file that has settings of pytest."""
    for name, section in _INI_FILES:
        if not (text := read(name)):
            continue
        if section:
            parser = configparser.ConfigParser(interpolation=None, strict=False)
            try:
                parser.read_string(text)
            except configparser.Error:
                continue
            if parser.has_section(section):
                return parser.get(section, "testpaths", fallback="").split()
            continue
        try:
            options: Any = parse_toml(text.encode("utf-8", "replace"))["tool"]["pytest"]
            paths = options.get("ini_options", options).get("testpaths", [])
        except (ValueError, LookupError, AttributeError, TypeError):
            continue
        paths = paths.split() if isinstance(paths, str) else paths
        return [path for path in paths if isinstance(path, str)] if isinstance(paths, list) else []
    return ()
