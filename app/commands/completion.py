"""`signoff completion`: scripts for the common shells, made from the parser itself."""

import argparse
import sys

from app.commands.output import Exit
from app.commands.parser import command_parser


def completion(arguments: argparse.Namespace) -> Exit:
    """Print the script of one shell."""
    import shtab

    sys.stdout.write(shtab.complete(command_parser(), shell=arguments.shell) + "\n")
    return Exit.DONE
