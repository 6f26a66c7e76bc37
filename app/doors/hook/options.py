"""The arguments of `signoff hook`, which `signoff doors install` writes into the settings of an agent."""

import argparse

AGENTS = ("claude", "codex", "gemini")
_MOST_SECONDS = 86_400


def hook_parser() -> argparse.ArgumentParser:
    """The parser of the hook alone: that of all commands takes longer to make than an answer."""
    parser = argparse.ArgumentParser(prog="signoff hook")
    add_hook_arguments(parser)
    return parser


def add_hook_arguments(parser: argparse.ArgumentParser) -> None:
    """All that the hook takes."""
    parser.add_argument("agent", choices=AGENTS, help="which agent calls")
    parser.add_argument("--workspace", default="", metavar="FOLDER", help="the workspace (default: the agent's)")
    add_hook_options(parser)


def add_hook_options(parser: argparse.ArgumentParser) -> None:
    """What can be chosen when the hook is installed."""
    parser.add_argument(
        "--wait",
        type=seconds,
        default=0,
        metavar="SECONDS",
        help="hold an edit until you have decided, so long at most, and give the decision back as its result",
    )
    parser.add_argument(
        "--commands",
        choices=("deny", "ask", "allow"),
        default="allow",
        help="what to say of commands of its shell (allow: its own rules decide; what they write is not seen here)",
    )


def seconds(text: str) -> int:
    """A number of seconds, at most a day."""
    if not (text.isascii() and text.isdecimal() and len(text) < 6 and int(text) <= _MOST_SECONDS):
        raise argparse.ArgumentTypeError(f"give whole seconds, up to {_MOST_SECONDS}")
    return int(text)
