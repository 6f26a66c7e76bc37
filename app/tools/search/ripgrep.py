"""ripgrep as a sieve: which of many files can have a match at all. What matches is then decided in one place, by us.

It gets the very files to look at, so ignore rules, secrets and links are not its business, and it never shows text.
Nor is it asked about expressions, of which it has a dialect of its own, but about the texts that a match needs.
"""

import os
import shutil
import subprocess
import threading
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

_ARGUMENT_BYTES = 96 * 1024
"""Bytes of paths in one call; far below the limit of any system."""
_OPTIONS = (
    "--no-config",
    "--no-ignore",
    "--hidden",
    "--no-messages",
    "--no-search-zip",
    "--no-pre",
    "--crlf",
    "--color=never",
    "--files-with-matches",
    "--null",
)

_LETTERS_I = r"[iI\x{130}\x{131}]"
"""What Python takes for the same where case does not count; ripgrep has the last two, of Turkish, for others."""


class Sieve:
    """One search with ripgrep; `stop` may come from another thread."""

    def __init__(self, program: str, root: Path, texts: Collection[str], *, ignore_case: bool) -> None:
        """Nothing is run yet.

        Args:
            program: ripgrep.
            root: What the paths count from.
            texts: Printable ASCII; files pass that have one of them.
            ignore_case: Whether upper and lower case are the same, as for Python.
        """
        self._root = root
        self._command = [program, *_OPTIONS, "--ignore-case" if ignore_case else "--case-sensitive"]
        for text in sorted(texts):
            self._command += ["--regexp", "".join(_letter(each, ignore_case) for each in text)]
        self._command.append("--")
        self._running: subprocess.Popen[bytes] | None = None
        self._stopped = threading.Event()

    def passed(self, paths: Sequence[str]) -> list[str]:
        """The paths whose files may match, in the same order; all of a batch if ripgrep can't tell."""
        found: list[str] = []
        for batch in _batches(paths):
            if self._stopped.is_set():
                break
            found += self._passed(batch)
        return found

    def stop(self) -> None:
        """End it."""
        self._stopped.set()
        if self._running is not None:
            self._running.kill()

    def _passed(self, batch: Sequence[str]) -> Sequence[str]:
        try:
            with subprocess.Popen(
                [*self._command, *batch],
                cwd=self._root,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env={"PATH": os.defpath, "LC_ALL": "C.UTF-8"},
                start_new_session=True,
            ) as process:
                self._running = process
                if self._stopped.is_set():
                    # The stop came while this was started, and found nothing to end.
                    process.kill()
                output, _ = process.communicate()
        except OSError:
            return batch
        if process.returncode not in (0, 1):
            return batch
        # It reads its standard input in the place of a file of that name.
        matching = {"-", *os.fsdecode(output).split("\0")}
        return [path for path in batch if path in matching]


def _letter(letter: str, ignore_case: bool) -> str:
    """An expression for one letter, which no version takes for anything else."""
    if ignore_case and letter in "iI":
        return _LETTERS_I
    return letter if letter.isalnum() else f"\\x{ord(letter):02x}"


def find_ripgrep(root: Path) -> str | None:
    """The program, if it is installed; one that lies in the workspace is not trusted."""
    program = shutil.which("rg")
    if program is None or not Path(program).is_absolute() or Path(program).resolve().is_relative_to(root):
        return None
    return program


def _batches(paths: Sequence[str]) -> Iterator[Sequence[str]]:
    start = size = 0
    for end, path in enumerate(paths):
        size += len(os.fsencode(path)) + 1
        if size > _ARGUMENT_BYTES and end > start:
            yield paths[start:end]
            start, size = end, len(os.fsencode(path)) + 1
    if start < len(paths):
        yield paths[start:]
