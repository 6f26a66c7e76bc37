"""The argument parsers; `--help` and the shell completion show their help texts."""

import argparse
import functools
import re
import sys
from typing import Any, NoReturn

from app import __version__
from app.cli.app_arguments import COMMANDS
from app.cli.command_output import ExitCode, print_error, stdout_error_message
from app.doors.hook.agents import AGENTS, add_all_hook_arguments, add_hook_options, parse_seconds
from app.text.quantities import parse_duration

_EPILOG = """\
commands:
  run PROMPT          one turn without the screen: stage proposals, change nothing
  proposals           what waits for your decision in this workspace
  show ID             a proposal as a unified diff that `git apply` takes
  ask ID QUESTION     ask the model about a hunk, aside from the conversation
  approve ID          write a proposal to disk, or some hunks of it
  review [ID] --plain the review as lines, for screen readers and plain terminals
  check ID            run your checks on a proposal, before anything is written
  evidence ID         run tests without each hunk of it: what notices if it is missing
  reproduce ID        run the command that made it again: are the files the same, byte for byte
  checks suggest      propose checks for this workspace, from what it has
  deny ID             discard a proposal, with feedback for the model if you like
  undo ID             take back an approval, byte for byte, or a denial
  redo ID             do again what was undone
  stage [FILE]        review a diff made elsewhere (`git diff | signoff stage -`)
  stage --worktree    review what is on disk already: a yes keeps it, a no takes it back
  stage --from REF    review a commit, a range or a pull request; what you signed before is left out
  push ID [REMOTE]    a proposal as a git reference, for review on another machine
  doors               other agents: where signoff is hooked in; `doors install claude`
  hook AGENT          called by another agent before each tool: its edits wait here
  mcp                 for other agents: a server through which their edits wait here; see docs/other-agents.md
  sessions            the conversations of this workspace
  search              what was said in them, by words
  export SESSION      a session as Markdown or JSON
  import FILE         a session of another program's transcript
  log                 who decided what and when: the audit trail
  trailers ID         lines for a commit message: who assisted, what was reviewed
  notes [COMMIT]      note on a commit what was reviewed of it, signed
  verify [RANGE]      from git alone: was every change of these commits reviewed?
  doctor              check the endpoint: key, model, streaming, tools, gate
  keys                every action with its key
  servers             the MCP servers that there are here, and where each is written down
  completion SHELL    a completion script for bash, zsh or fish
  demo-server         the demo model by itself, on loopback

Each has its own --help. To open a folder that has a command's name, write ./run.

exit codes: 0 done, 1 the request failed, 2 wrong usage, 3 refused (stale, conflict, unsafe path), 4 a limit ended
the turn of `run`
"""


class UsageError(SystemExit):
    """The arguments are wrong; argparse has written the reason to standard error."""

    def __init__(self, problem: str) -> None:
        super().__init__(2)
        self.problem = problem


class CommandLineParser(argparse.ArgumentParser):
    """An argparse parser that raises `UsageError` instead of exiting."""

    def error(self, message: str) -> NoReturn:
        """Write the usage and the reason to standard error; raise `UsageError`."""
        self.print_usage(sys.stderr)
        self._print_message(f"{self.prog}: error: {message}\n")
        raise UsageError(message)

    def _print_message(self, message: str, file: Any = None) -> None:
        """Print help, the version or the usage; argparse would ignore that standard output cannot be written."""
        try:
            (file or sys.stderr).write(message)
        except OSError as error:
            if file is not sys.stdout:
                return
            if isinstance(error, BrokenPipeError):
                raise
            print_error(stdout_error_message(error))
            raise SystemExit(ExitCode.FAILED) from error

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:
        """Parse all arguments and refuse unknown ones, so that the command's own parser reports them."""
        known, surplus = super().parse_known_args(args, namespace)
        for word in surplus:
            if word.startswith("-"):
                self.error(f"there is no option {word}")
            self.error(f"{word!r} is one word too many; a text of several words goes in quotes")
        return known, surplus


def make_app_parser() -> argparse.ArgumentParser:
    """Return the parser of `signoff [WORKSPACE]`."""
    parser = CommandLineParser(
        prog="signoff",
        usage="signoff [WORKSPACE] [options]\n       signoff COMMAND [options]",
        description="A terminal coding assistant in which the model proposes and you sign off.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("workspace", nargs="?", default=None, metavar="WORKSPACE", help="folder to open (default: .)")
    add_app_options(parser)
    return parser


def add_app_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the app to a parser."""
    _add_session_options(parser)
    _add_model_options(parser)
    parser.add_argument("--theme", metavar="T", type=_text, help="theme of the app; /theme lists them")
    _add_flag(parser, "--demo", "sample repository and demo model: no key, no network")
    _add_plain_option(parser)
    parser.add_argument("--version", action="version", version=f"signoff {__version__}")


@functools.cache
def make_command_parser() -> argparse.ArgumentParser:
    """Return the parser of all commands; it is built once in a process."""
    parser = CommandLineParser(prog="signoff")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    run = _add_command(
        commands, "run", "One turn without the screen: stages proposals, prints them, changes nothing."
    )
    run.add_argument(
        "prompt",
        nargs="?",
        default="-",
        type=_text,
        help="what to say to the model; - or nothing reads standard input",
    )
    run.add_argument(
        "--image", action="append", default=[], type=_text, metavar="FILE", help="an image to send; may be repeated"
    )
    run.add_argument("--max-steps", type=int, metavar="N", help="steps before the model is told to stop")
    run.add_argument(
        "--max-cost",
        type=_parse_dollars,
        metavar="DOLLARS",
        help="what the session may cost before the model is stopped",
    )
    run.add_argument(
        "--max-time", type=_parse_duration, metavar="TIME", help="how long its turns may work: 90s, 10m, 1h30m"
    )
    run.add_argument(
        "--commands",
        choices=("deny", "allow"),
        default="deny",
        help="whether the model may run commands, and call tools of MCP servers (default: deny); what they change "
        "becomes a proposal",
    )
    _add_flag(run, "--in-place", "with --commands allow: also where commands can only run directly on your files")
    _add_flag(run, "--quiet", "nothing on standard error while it works")
    _add_flag(run, "--demo", "use the demo model, in this workspace")
    _add_session_options(run)
    _add_model_options(run)

    proposals = _add_command(commands, "proposals", "List the proposals that wait for your decision.")
    _add_flag(proposals, "--watch", "with --json: a line of JSON for what waits, then for each change")
    _add_flag(proposals, "--all", "also those that were decided")
    proposals.add_argument(
        "--origin",
        metavar="WHO",
        type=_name,
        help="only those of an agent (claude), of a model, of signoff itself, or of a command, patch, disk or ref",
    )

    show = _proposal_command(commands, "show", "Print a proposal as a unified diff that `git apply` takes.")
    _add_flag(show, "--hunks", "list the hunks by the numbers that `approve --hunks` takes instead")
    _add_ask_command(commands)
    _add_decision_commands(commands)
    _add_staging_commands(commands)

    _add_door_commands(commands)
    sessions = _add_command(commands, "sessions", "List the sessions of this workspace, the latest first.")
    sessions.add_argument(
        "--prune",
        type=int,
        metavar="DAYS",
        help="first remove sessions not used for so many days, with their decided proposals (which can then no "
        "longer be undone); what waits and the decision log stay",
    )
    search = _add_command(
        commands, "search", "Find what was said, proposed or read in any session, the newest first."
    )
    search.add_argument("words", metavar="WORD", nargs="+", type=_text, help="all of these, or their beginnings")
    _add_export_command(commands)
    _add_record_commands(commands)
    _add_doctor_command(commands)
    _add_command(commands, "keys", "List every action with its key.")
    _add_command(commands, "servers", "List the MCP servers that there are for this workspace; none is started.")
    completion = _add_command(commands, "completion", "Print a completion script.", json=False, workspace=False)
    completion.add_argument("shell", choices=("bash", "zsh", "fish"))
    server = _add_command(
        commands,
        "demo-server",
        "The demo model, an OpenAI-compatible server on loopback.",
        json=False,
        workspace=False,
    )
    server.add_argument(
        "--port", type=_parse_port, default=0, metavar="N", help="port on 127.0.0.1 (default: a free one)"
    )
    server.add_argument(
        "--tokens-per-second",
        type=_parse_token_rate,
        default=60.0,
        metavar="N",
        help="how fast it streams; 'inf' for no pauses",
    )
    return parser


def _add_decision_commands(commands: Any) -> None:
    approve = _proposals_command(commands, "approve", "Write a proposal to disk, all of it or nothing.")
    approve.add_argument("--hunks", metavar="1,3", help="only these hunks (1,3-5); the others keep waiting")
    _add_flag(approve, "--force", "also what has changed since you were shown it")
    _add_flag(approve, "--unchecked", "without the checks that the workspace wants before a write")
    deny = _proposals_command(commands, "deny", "Discard a proposal; what is on disk already is taken off it.")
    deny.add_argument("--hunks", metavar="1,3", help="only these hunks (1,3-5); the others keep waiting")
    _add_flag(deny, "--force", "what is on disk also where it has changed since")
    deny.add_argument(
        "-m",
        "--message",
        metavar="FEEDBACK",
        type=_text,
        help="your words, which the model reads in its next request; - for stdin",
    )
    review = _add_command(
        commands, "review", "Review what waits as lines, hunk by hunk, as `git add -p` does.", json=False
    )
    review.add_argument("ids", metavar="ID", nargs="*", type=_name, help="the proposals (default: all that wait)")
    _add_plain_option(review)
    check = _proposal_command(
        commands, "check", "Run the workspace's checks on a proposal that waits; writes nothing."
    )
    check.add_argument("--hunks", metavar="1,3", help="on what an approval of these hunks (1,3-5) would leave")
    check.add_argument(
        "--only", metavar="NAME", action="append", default=[], type=_text, help="just this check; may be repeated"
    )
    checks = _add_command(
        commands, "checks", "Propose [[check]] tables for .signoff.toml, from what the workspace has."
    )
    checks.add_argument("what", choices=("suggest",), help="stages them as a proposal")
    evidence = _proposal_command(
        commands, "evidence", "Run tests without each hunk of a proposal that waits: what notices if it is missing."
    )
    evidence.add_argument("--hunks", metavar="1,3", help="of what an approval of these hunks (1,3-5) would leave")
    evidence.add_argument("--only", metavar="NAME", type=_text, help="the tests of this check")
    evidence.add_argument(
        "--seconds", type=parse_seconds, metavar="N", help="how long tests may run (default: evidence_seconds)"
    )
    _proposal_command(
        commands, "reproduce", "Run the command that made a proposal again, and compare what it gives by bytes."
    )
    _proposals_command(commands, "undo", "Undo an applied proposal, byte for byte; a denied one waits again.")
    _proposals_command(commands, "redo", "Apply an undone proposal again, or deny again one that was reopened.")


def _add_plain_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--plain",
        "--accessible",
        action="store_true",
        help="lines alone, without colour or redraw; so it is where TERM is dumb or ACCESSIBLE is set",
    )


def _add_ask_command(commands: Any) -> None:
    ask = _proposal_command(
        commands, "ask", "Ask the model about a hunk, aside from the conversation; nothing is decided."
    )
    ask.add_argument("question", type=_text, help='such as "what calls this?"')
    ask.add_argument("--hunk", type=int, metavar="N", help="which hunk, by its number; not needed where there is one")
    _add_model_options(ask)


def _add_export_command(commands: Any) -> None:
    export = _add_command(
        commands, "export", "Write a session, or the review of a proposal, to standard output.", json=False
    )
    which = "its id or the beginning of it; `latest` for the last one; with --review a proposal"
    export.add_argument("session", metavar="SESSION", type=_name, help=which)
    _add_flag(export, "--review", "a report to send to somebody: diff, comments, decisions, checks")
    export.add_argument(
        "--format",
        choices=("md", "json", "html", "github", "gitlab"),
        default="md",
        help="Markdown (default) or JSON; of a review Markdown, a page, or what the API of GitHub or GitLab takes",
    )
    export.add_argument(
        "--base",
        metavar="BRANCH",
        type=_text,
        default="",
        help="for github and gitlab: where the pull request goes (default: HEAD)",
    )
    export.add_argument(
        "--head",
        metavar="COMMIT",
        type=_text,
        default="",
        help="for github and gitlab: its latest commit (default: that of the proposal)",
    )
    export.add_argument("--images", metavar="FOLDER", help="write the images that you sent there, under their hashes")
    read = _add_command(commands, "import", "Make a session of what Claude Code, Codex or a list of messages holds.")
    read.add_argument("file", metavar="FILE", help="a .jsonl of Claude Code or Codex, or JSON in OpenAI's form")


def _add_doctor_command(commands: Any) -> None:
    doctor = _add_command(commands, "doctor", "Check the endpoint: reachable, key, model, streaming, tools, gate.")
    doctor.add_argument(
        "--hook-schema", dest="schema", action="store_true", help="instead: the JSON schema of what hooks are told"
    )
    _add_model_options(doctor)


def _add_record_commands(commands: Any) -> None:
    log = _add_command(commands, "log", "List every decision in this workspace, the oldest first.")
    _add_flag(log, "--verify", "walk the hash chain of the record instead, and compare the tables and files with it")
    _add_flag(log, "--schema", "print the JSON schema of what it prints with --json")
    about = _add_command(
        commands, "trailers", "Print the trailers for a commit of what proposals have written.", json=False
    )
    about.add_argument("ids", metavar="ID", nargs="*", type=_name, help="the proposal, such as P7; several in order")
    _add_flag(about, "--staged", "instead: for what is in git's index")
    about.add_argument("--into", metavar="FILE", help="put them into the message in this file, as a commit hook does")
    notes = _add_command(
        commands, "notes", "Note on commits, in git's notes, what was reviewed of them, and sign it."
    )
    notes.add_argument(
        "commit",
        metavar="COMMIT",
        nargs="?",
        default="HEAD",
        type=_name,
        help="or a range, which is signed at once (default: HEAD)",
    )
    _add_flag(notes, "--if-reviewed", "say nothing of what the record does not know")
    _add_flag(notes, "--install", "instead: show what has git write and exchange notes")
    _add_flag(notes, "--yes", "with --install: write it")
    _add_flag(notes, "--git-ai", "also in git-ai's format, line by line")
    _add_flag(notes, "--denials", "also which hunks were denied")
    verify = _add_command(commands, "verify", "Verify from git alone that the changes of commits were reviewed.")
    verify.add_argument(
        "range",
        metavar="RANGE",
        nargs="?",
        default="",
        type=_text,
        help="BASE..TIP, or one commit (default: what HEAD has and its upstream has not)",
    )
    verify.add_argument(
        "--format",
        choices=("text", "github", "sarif", "badge"),
        help="annotations for GitHub Actions, SARIF, or a badge of shields.io (default: text)",
    )
    verify.add_argument(
        "--notes",
        metavar="REF",
        action="append",
        default=[],
        help="also notes elsewhere: a reference or a commit, such as one that is being pushed",
    )
    verify.add_argument("--at", metavar="DAY", help="the day on which keys must be valid (default: now)")
    verify.add_argument("--policy", metavar="FILE", help="the policy (default: .signoff/review-policy.toml of BASE)")


def _add_door_commands(commands: Any) -> None:
    """Add the commands that other agents call, and `doors`, which installs their hooks."""
    names = [agent.name for agent in AGENTS]
    doors = _add_command(commands, "doors", "Where other agents have signoff hooked in; proposes to change that.")
    doors.add_argument(
        "what",
        nargs="?",
        choices=("show", "install", "remove"),
        default="show",
        help="show (default), or stage a proposal that changes the settings of an agent in this workspace",
    )
    doors.add_argument("agent", nargs="?", choices=names, metavar="AGENT", help=", ".join(names))
    doors.add_argument(
        "--try",
        dest="trial",
        nargs="?",
        choices=names,
        const=True,
        metavar="AGENT",
        help="have that agent, or each installed one, make an edit in a scratch folder, with a scripted model and "
        "without your settings, and say whether signoff's hook held it",
    )
    add_hook_options(doors)
    hook = _add_command(
        commands, "hook", "Answer one call of another agent, from standard input.", json=False, workspace=False
    )
    add_all_hook_arguments(hook)
    mcp = _add_command(
        commands, "mcp", "An MCP server on standard input and output, for another agent to start.", json=False
    )
    mcp.add_argument(
        "--wait",
        type=parse_seconds,
        default=0,
        metavar="SECONDS",
        help="hold each proposing call so long for your decision, and give it back as the result (default: 0)",
    )


def _add_staging_commands(commands: Any) -> None:
    stage = _add_command(
        commands, "stage", "Make a proposal of a diff made elsewhere, of commits, or of what is on disk."
    )
    stage.add_argument("file", nargs="*", metavar="FILE", help="the diff; - or nothing reads standard input")
    stage.add_argument(
        "--worktree",
        nargs="*",
        metavar="PATH",
        type=_text,
        help="what is changed on disk against the index, new files too; approving keeps it, denying takes it back",
    )
    stage.add_argument(
        "--against", metavar="COMMIT", type=_text, help="with --worktree: against this commit, not the index"
    )
    stage.add_argument(
        "--from",
        dest="source",
        nargs="+",
        metavar="REF",
        type=_name,
        help="a commit, a branch, a range, the address of a pull request, or a remote and a reference of it",
    )
    _add_flag(stage, "--all", "also what you have signed before, by the record")
    push = _proposal_command(commands, "push", "Put a proposal on a git reference that another machine can stage.")
    push.add_argument("remote", nargs="?", metavar="REMOTE", type=_text, help="a remote or an address")
    push.add_argument(
        "--as", dest="name", metavar="NAME", type=_parse_ref_name, help="as refs/signoff/NAME, not by its id"
    )
    _add_flag(push, "--force", "in the place of what is there")
    _add_flag(push, "--sign", "with your signed approval, though nothing is written here")


def _add_command(
    commands: Any, name: str, help_text: str, *, json: bool = True, workspace: bool = True
) -> argparse.ArgumentParser:
    assert name in COMMANDS
    parser: argparse.ArgumentParser = commands.add_parser(name, help=help_text, description=help_text)
    if json:
        _add_flag(parser, "--json", "one JSON document on standard output")
    if workspace:
        parser.add_argument("--workspace", default=".", metavar="FOLDER", help="the workspace (default: .)")
    return parser


def _add_flag(parser: argparse.ArgumentParser, name: str, help_text: str) -> None:
    parser.add_argument(name, action="store_true", help=help_text)


def _proposal_command(commands: Any, name: str, help_text: str) -> argparse.ArgumentParser:
    parser = _add_command(commands, name, help_text)
    parser.add_argument("id", metavar="ID", type=_name, help="the proposal, such as P7")
    return parser


def _proposals_command(commands: Any, name: str, help_text: str) -> argparse.ArgumentParser:
    parser = _add_command(commands, name, help_text)
    parser.add_argument(
        "ids", metavar="ID", nargs="+", type=_name, help="the proposal, such as P7; several are taken in this order"
    )
    return parser


def _parse_ref_name(argument: str) -> str:
    """Return the last part of a git reference. Raises ArgumentTypeError."""
    if not re.fullmatch(r"[A-Za-z0-9_][\w.-]*(?<!\.lock)(?<!\.)", argument, re.ASCII) or ".." in argument:
        raise argparse.ArgumentTypeError("letters, digits, -, _ and dots")
    return argument


def _text(argument: str) -> str:
    """Return an argument that is stored or sent. Raises ArgumentTypeError if it is not valid text."""
    if any("\udc80" <= character <= "\udcff" for character in argument):
        raise argparse.ArgumentTypeError("this is not UTF-8 text")
    return argument


def _name(argument: str) -> str:
    """Return an argument that names something. Raises ArgumentTypeError if it is empty or not valid text."""
    if not argument.strip():
        raise argparse.ArgumentTypeError("this is empty")
    return _text(argument)


def _parse_port(argument: str) -> int:
    if not (argument.isdecimal() and int(argument) < 65_536):
        raise argparse.ArgumentTypeError("give a number up to 65535")
    return int(argument)


def _parse_dollars(argument: str) -> float:
    try:
        dollars = float(argument)
    except ValueError:
        dollars = 0.0
    if not 0 < dollars < float("inf"):
        raise argparse.ArgumentTypeError("give an amount in US dollars, such as 2.00")
    return dollars


def _parse_duration(argument: str) -> float:
    try:
        return parse_duration(argument)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _add_session_options(parser: argparse.ArgumentParser) -> None:
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--continue", dest="resume", action="store_true", help="go on with the latest session")
    which.add_argument("--session", metavar="ID", type=_name, help="go on with this session")
    parser.add_argument(
        "--debug",
        metavar="FILE",
        type=_text,
        help="append to FILE what signoff decides and how long requests take, as JSON lines, without what is said",
    )


def _add_model_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--model", metavar="M", type=_text, help="the model's name at the endpoint")
    parser.add_argument("--base-url", metavar="URL", type=_text, help="the address of the endpoint, up to /v1")
    parser.add_argument(
        "--reasoning-effort",
        "--effort",
        metavar="E",
        type=_text,
        help="how much the model is to reason: none, minimal, low, medium, high, xhigh, max; off: the server chooses",
    )
    parser.add_argument("--gate", metavar="POLICY", type=_parse_gate, help="every-edit (default), chain, or chain:N")


def _parse_token_rate(text: str) -> float:
    try:
        rate = float(text)
    except ValueError:
        rate = 0.0
    if not rate > 0:
        raise argparse.ArgumentTypeError("give a number above 0, or inf")
    return rate


def _parse_gate(text: str) -> str:
    kind, colon, steps = text.partition(":")
    if kind == "every-edit" and not colon:
        return text
    if kind == "chain" and (not colon or (steps.isdecimal() and 1 <= int(steps) <= 50)):
        return text
    raise argparse.ArgumentTypeError("give every-edit, chain, or chain:N with N from 1 to 50")
