"""`signoff completion`: scripts for the common shells, made from the parser itself.

Kept apart: of all commands just the one that runs is loaded.
"""

import argparse
import sys
from collections.abc import Iterator

from app.cli.output import Exit
from app.cli.parser import add_app_options, command_parser


def completion(arguments: argparse.Namespace) -> Exit:
    """Print the script of one shell."""
    import shtab

    parser = command_parser()
    add_app_options(parser)
    for action in _actions(parser):
        if action.dest == "workspace":
            action.complete = shtab.DIRECTORY  # type: ignore[attr-defined]
        elif action.dest == "file":
            action.complete = shtab.FILE  # type: ignore[attr-defined]
    sys.stdout.write(shtab.complete(parser, shell=arguments.shell) + "\n")
    return Exit.DONE


def _actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    """Every argument of a parser and of its commands."""
    # argparse has no public way to walk a parser; shtab and every other completion tool read the same attribute.
    for action in parser._actions:
        yield action
        if isinstance(action.choices, dict):
            for command in action.choices.values():
                yield from _actions(command)
