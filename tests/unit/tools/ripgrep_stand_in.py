"""A program in the place of ripgrep: it plays what ripgrep said, where that is not installed or misbehaves."""

import shlex
from pathlib import Path


def play(program: Path, output: bytes, status: int) -> Path:
    """Make a program that notes how it was called beside itself, says `output` and exits with `status`."""
    program.with_suffix(".output").write_bytes(output)
    return _script(program, f'cat "$0.output"\nexit {status}')


def let_all_pass(program: Path) -> Path:
    """Make a program that finds a match in every file: nothing is left to the sieve."""
    return _script(program, 'while [ "$1" != -- ]; do shift; done\nshift\nprintf "%s\\\\0" "$@"')


def never_end(program: Path) -> Path:
    """Make a program that says nothing and doesn't end by itself."""
    return _script(program, "exec sleep 600")


def calls(program: Path) -> list[list[str]]:
    noted = program.with_suffix(".calls").read_bytes().split(b"\0\0")[:-1]
    return [[argument.decode("utf-8", "surrogateescape") for argument in call.split(b"\0")[1:]] for call in noted]


def environment(program: Path) -> set[str]:
    """The names of the variables that the latest call saw."""
    return {line.partition("=")[0] for line in program.with_suffix(".environment").read_text().splitlines()}


def _script(program: Path, then: str) -> Path:
    quoted = shlex.quote(str(program))
    program.write_text(
        f"#!/bin/sh\nprintf '\\0%s' \"$@\" >> {quoted}.calls\nprintf '\\0\\0' >> {quoted}.calls\n"
        f"env > {quoted}.environment\n{then}\n"
    )
    program.chmod(0o755)
    return program
