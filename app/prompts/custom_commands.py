"""Custom slash commands: Markdown files that become messages."""

import json
import os
import re
import shlex
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import partial
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import get_args

from msgspec import Struct, field

from app.config.config_tables import Effort
from app.prompts.front_matter import parse_front_matter
from app.text.safe_text import escape_unsafe
from app.workspace.path_rules import WorkspaceError
from app.workspace.paths import Workspace
from app.workspace.reading import read_regular_file

MAX_MESSAGE_CHARACTERS = 500_000
"""Maximum number of characters of a message: a file can contain many placeholders."""
_MAX_LINE_CHARACTERS = 200
"""Maximum number of characters of a description or a hint."""

_NAME = re.compile(r"[^\W\d_][\w-]*(?::[\w-]+)*")
_SHELL_CALL = re.compile(r"(?:^|(?<=\s))!`([^`\n]+)`|^```!", re.MULTILINE)
_PLACEHOLDER = re.compile(r"\$(?:ARGUMENTS\b|([1-9])(?!\d))")


class CommandUnusable(Exception):
    """A command cannot be called, or not with these arguments; the message is one line that says why.

    Args:
        untrusted: Whether the reason is that the user does not trust the workspace's commands.
    """

    def __init__(self, message: str, *, untrusted: bool = False) -> None:
        super().__init__(message)
        self.untrusted = untrusted


class CustomCommand(Struct, frozen=True):
    """A custom command as defined by its file."""

    name: str
    """`review`, or `git:review` for a file in a folder; in lower case."""
    path: str
    """Path of its file as shown to the user."""
    description: str = ""
    argument: str = ""
    """Description of its arguments for the user, e.g. `[file] [what to look for]`."""
    body: str = ""
    model: str = ""
    """The model for its message; empty for the current one."""
    effort: str = ""
    """The reasoning effort for its message; empty for the current one."""
    shell: int = 0
    """Number of shell commands in it; signoff runs none of them."""
    problem: str = ""
    """Why it cannot be called; empty if it can."""

    @property
    def summary(self) -> str:
        """Return its line for the list of commands."""
        return " · ".join(part for part in (self.argument, self.description) if part)

    def make_message(self, argument: str) -> str:
        """Return the message for the model, with the argument inserted. Raises `CommandUnusable`."""
        if self.problem:
            raise CommandUnusable(f"/{self.name} cannot be used: {self.path}: {self.problem}.")
        text = insert_or_append_arguments(self.body, argument)
        if not text.strip():
            raise CommandUnusable(f"/{self.name} says nothing: {self.path} is empty.")
        return text


def command_name_from_path(path: str) -> str:
    """Return the command's name for a file below a commands folder. Raises `CommandUnusable`."""
    name = ":".join(PurePosixPath(path).with_suffix("").parts).lower()
    if not _NAME.fullmatch(name):
        raise CommandUnusable("a command's name is made of letters, digits, - and _, and begins with a letter")
    return name


def parse_custom_command(name: str, path: str, content: bytes, *, takes_model: bool = True) -> CustomCommand:
    """Return the command that a file defines.

    Args:
        path: path of its file as shown to the user.
        takes_model: whether to use its `model`: files of other programs name models of other endpoints.
    """
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return CustomCommand(name, path, problem="it is not UTF-8 text")
    if "\0" in text:
        return CustomCommand(name, path, problem="it is not text")
    markdown = parse_front_matter(text)
    values, body = markdown.values, markdown.body.strip()
    first = next((line.strip("# \t") for line in body.splitlines() if line.strip("# \t")), "")
    effort = values.get("effort", "").lower()
    problem = markdown.problem
    if effort and effort not in get_args(Effort):
        problem = problem or f"effort is one of {', '.join(get_args(Effort))}"
    return CustomCommand(
        name,
        path,
        _format_line(values.get("description", "") or first),
        _format_line(values.get("argument-hint", "")),
        body,
        _model_name(values) if takes_model else "",
        effort,
        len(_SHELL_CALL.findall(body)),
        problem,
    )


def insert_or_append_arguments(body: str, argument: str) -> str:
    """Return the body with `$ARGUMENTS` and `$1` to `$9` replaced; without a placeholder, the argument is appended.

    Inserted text is not searched for placeholders. The argument is split like in a shell; if its quotes do not match,
    as in "don't", it is split at spaces. Raises CommandUnusable if the message becomes too long.
    """
    argument = argument.strip()
    words = _split_argument(argument)
    parts: list[str] = []
    length = position = 0
    for placeholder in _PLACEHOLDER.finditer(body):
        if placeholder[1]:
            number = int(placeholder[1])
            value = words[number - 1] if number <= len(words) else ""
        else:
            value = argument
        parts += body[position : placeholder.start()], value
        position = placeholder.end()
        length += len(value)
        if length > MAX_MESSAGE_CHARACTERS:
            raise CommandUnusable(f"That makes a message of more than {MAX_MESSAGE_CHARACTERS:,} characters.")
    text = "".join([*parts, body[position:]])
    if argument and not parts:
        text = f"{text}\n\n{argument}"
    return text.strip()


def _split_argument(argument: str) -> list[str]:
    try:
        return shlex.split(argument)
    except ValueError:
        return argument.split()


def _model_name(values: Mapping[str, str]) -> str:
    name = " ".join(values.get("model", "").split())
    return "" if name.lower() in ("inherit", "default") else name


def _format_line(text: str) -> str:
    line = escape_unsafe(" ".join(text.split()), keep="")
    return line if len(line) <= _MAX_LINE_CHARACTERS else line[: _MAX_LINE_CHARACTERS - 1].rstrip() + "…"


MAX_COMMAND_FILE_BYTES = 64 * 1024
"""Maximum number of bytes of one file."""
MAX_COMMAND_FILES = 300
"""Maximum number of files in one folder, including its subfolders."""
MAX_COMMAND_FILES_BYTES = 512 * 1024
"""Maximum number of bytes of all files that the user is asked to trust."""
_MAX_WALKED_FILES = 5_000
"""Maximum number of entries of a folder that are searched for command files."""

OF_WORKSPACE = (".signoff/commands", ".claude/commands")
"""Command folders of a workspace; the first takes precedence if both have a name."""


class FoundCommands(Struct, frozen=True):
    """The commands found in some folders, and the problems with their files."""

    commands: tuple[CustomCommand, ...] = ()
    problems: tuple[str, ...] = ()
    """One line for each file that is not a valid command."""
    content: bytes = b""
    """Content of all files, on which the user's trust depends."""
    texts: tuple[tuple[str, str], ...] = ()
    """Path and text of each file, for the user to read before trusting them."""


def find_workspace_commands(workspace: Workspace) -> FoundCommands:
    """Return the commands of the workspace; they cannot be called before the user trusts `content`."""
    files: list[tuple[str, str, Callable[[], bytes]]] = []
    for folder in OF_WORKSPACE:
        try:
            real_folder = workspace.resolve(folder)
            if workspace.kind(real_folder) != "folder":
                continue
            walked = islice(workspace.walk_files(real_folder), _MAX_WALKED_FILES)
            for path in islice((path for path in walked if path.endswith(".md")), MAX_COMMAND_FILES):
                relative_path = path.removeprefix(f"{real_folder}/")
                read = partial(workspace.read, path, MAX_COMMAND_FILE_BYTES)
                files.append((f"{folder}/{relative_path}", relative_path, read))
        except (OSError, WorkspaceError):
            continue
    return _parse_command_files(files, MAX_COMMAND_FILES_BYTES)


def find_user_commands(folders: Iterable[tuple[str, Path]]) -> FoundCommands:
    """Return the commands in the user's folders, each given with the name to show; links are followed."""
    files = [
        (f"{shown_folder}/{relative_path}", relative_path, partial(_read_user_file, path))
        for shown_folder, folder in folders
        for relative_path, path in islice(_markdown_files(folder), MAX_COMMAND_FILES)
    ]
    return _parse_command_files(files)


def _read_user_file(path: Path) -> bytes:
    return read_regular_file(path.resolve(), MAX_COMMAND_FILE_BYTES)[0]


def _markdown_files(folder: Path) -> Iterator[tuple[str, Path]]:
    walked = 0
    for parent, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted(names):
            walked += 1
            if walked > _MAX_WALKED_FILES:
                return
            if name.endswith(".md"):
                path = Path(parent, name)
                yield path.relative_to(folder).as_posix(), path


def _parse_command_files(
    files: Iterable[tuple[str, str, Callable[[], bytes]]], max_bytes: int = 2**30
) -> FoundCommands:
    commands: list[CustomCommand] = []
    problems: list[str] = []
    texts: list[tuple[str, str]] = []
    bytes_left = max_bytes
    for shown_path, relative_path, read in files:
        try:
            content = read()
            bytes_left -= len(content)
            if bytes_left < 0:
                problems.append(f"{shown_path}: left out: the files before it are too large together")
                continue
            texts.append((shown_path, content.decode(errors="replace")))
            name = command_name_from_path(relative_path)
            commands.append(parse_custom_command(name, shown_path, content, takes_model=".claude/" not in shown_path))
        except (CommandUnusable, WorkspaceError) as error:
            problems.append(f"{shown_path}: {error}")
        except (OSError, RuntimeError) as error:
            # `Path.resolve` raises RuntimeError for a loop of links.
            problems.append(f"{shown_path} cannot be read: {getattr(error, 'strerror', None) or error}")
    lines = tuple(escape_unsafe(line, keep="") for line in problems)
    return FoundCommands(tuple(commands), lines, json.dumps(texts).encode() if texts else b"", tuple(texts))


class CommandCatalogue(Struct, frozen=True):
    """All commands by name, including those that cannot be called."""

    commands: Mapping[str, CustomCommand] = field(default_factory=dict)
    """Commands by name, sorted; calling one with a problem raises an error."""
    problems: tuple[str, ...] = ()
    """One line for each problem with a file and for each name that is used twice."""
    untrusted: tuple[str, ...] = ()
    """Names of the workspace's commands that the user has not trusted."""

    def get(self, name: str) -> CustomCommand:
        """Return the command with a name. Raises `CommandUnusable`."""
        if command := self.commands.get(name.lower()):
            return command
        if name.lower() in self.untrusted:
            raise CommandUnusable(
                f"/{name} is a command of this workspace, and you have not trusted its present commands: "
                "/trust in the app shows them.",
                untrusted=True,
            )
        raise CommandUnusable(f"There is no command /{name}; /help in the app lists them.")

    def all_problems(self) -> tuple[str, ...]:
        """Return lines for the user: problems with files, and commands that cannot be called."""
        return (
            *self.problems,
            *(f"{command.path}: {command.problem}" for command in self.commands.values() if command.problem),
        )


def build_command_catalogue(
    user: FoundCommands, workspace: FoundCommands, built_in: Collection[str], *, trusted: bool
) -> CommandCatalogue:
    """Merge commands: signoff's own names take precedence, then the user's, then the workspace's."""
    problems = [*user.problems, *(workspace.problems if trusted else ())]
    commands: dict[str, CustomCommand] = {}
    for command in (*user.commands, *(workspace.commands if trusted else ())):
        if command.name in built_in:
            problems.append(f"{command.path}: /{command.name} is signoff's own command")
        elif (first := commands.get(command.name)) is None:
            commands[command.name] = command
        elif first.body != command.body:
            problems.append(f"{command.path}: /{command.name} is {first.path} already")
    untrusted = () if trusted else (command.name for command in workspace.commands if command.name not in built_in)
    return CommandCatalogue(
        dict(sorted(commands.items())), tuple(problems), tuple(sorted(set(untrusted) - commands.keys()))
    )
