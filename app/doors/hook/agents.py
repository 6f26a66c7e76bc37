"""Descriptions of the agents that can call signoff before their tools, and the options of their hooks.

A description contains the tools that write, the form of a denial and the paths of settings. Light to import, because
the hook answers before each tool call.
"""

import argparse
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from app.doors.hook.text_edits import (
    ReplacementTool,
    WholeFileTool,
    apply_claude_notebook_edit,
    apply_codex_patch,
    apply_qwen_notebook_edit,
    begins_with_mostly_crlf,
    has_crlf,
    has_mostly_crlf,
    has_only_crlf,
)
from app.doors.hook.transcripts import (
    ResponseAndPromptIds,
    find_claude_response,
    find_codex_response,
    find_last_droid_response,
    find_last_gemini_response,
    find_last_qwen_response,
)

if TYPE_CHECKING:
    from app.doors.hook.turn_files import InMemoryFilesOfOneCall


ApplyToolCall = Callable[["InMemoryFilesOfOneCall", Mapping[str, Any]], None]
"""Applies a tool call to files. Raises EditNotStaged."""


def _no_response(path: str, call: str) -> ResponseAndPromptIds:
    """Return an empty response: the agent has no transcript, or names the response in its payload."""
    return ResponseAndPromptIds()


class DenialFormat(NamedTuple):
    """The form in which an agent's hook denies a call."""

    on_stderr: bool = False
    """Whether the agent reads the reason from standard error; otherwise from the JSON on standard output."""
    ends_turn: bool = False
    """Whether `continue: false` together with a denial ends the turn."""
    is_flat: bool = False
    """Whether the JSON has `decision` and `reason` at its top level."""
    hides_words: bool = False
    """Whether the agent ignores the reason if the exit code is not 0."""


class ReadToolRangeArguments(NamedTuple):
    """The names of the arguments that give the range of lines, for a tool of an agent that reads one file."""

    start: str
    length: str = ""
    end: str = ""

    def shown_line_range(self, arguments: Mapping[str, Any], total: int) -> tuple[int, int]:
        """Return the first and the last line of a file that a call shows."""
        first = max(1, _integer_argument(arguments, self.start) or 1)
        last = (
            _integer_argument(arguments, self.end)
            or first + (_integer_argument(arguments, self.length) or _DEFAULT_READ_LINES) - 1
        )
        return first, min(total, last)


def _integer_argument(arguments: Mapping[str, Any], name: str) -> int:
    value = arguments.get(name)
    return int(value) if isinstance(value, int | float) else 0


_DEFAULT_READ_LINES = 2000
"""Lines that a tool shows by default."""


class ExternalAgent(NamedTuple):
    """An agent with its tools and the format of its hook settings."""

    name: str
    """The argument of `signoff hook`."""
    title: str
    edits: Mapping[str, ApplyToolCall]
    """Its tools that write, by name."""
    shells: tuple[str, ...]
    """Its tools that run commands."""
    denial: DenialFormat
    settings: str
    """Path of its settings file, relative to a project; empty if a project has none."""
    next_step: str
    """Instruction for the user after the settings are written."""
    project_variable: str = ""
    """The environment variable in which it passes the project to its hook; empty if it has none."""
    response: Callable[[str, str], ResponseAndPromptIds] = _no_response
    """Finds the response of a call, given the path of the transcript and the id of the call."""
    program_name: str = ""
    """Name of its program, if it differs from `name`."""
    form: Literal["json", "toml", "plugin"] = "json"
    """Kind of its settings: JSON or TOML with hooks, or a plugin that calls the hook."""
    user_settings: str | None = None
    """Path of the user's settings, relative to the home folder; None if it equals `settings`."""
    local: str = ""
    """Path of project settings that are not committed; empty if it has none."""
    before_tool: str = "PreToolUse"
    """Its name of the event before each tool call."""
    before_prompt: str = "UserPromptSubmit"
    after_turn: str = ""
    """Its name of the event after each turn; empty if that does not contain the agent's last message."""
    after_tool: str = ""
    """Its name of the event after a call; empty if reads are not recorded."""
    reads: Mapping[str, ReadToolRangeArguments] = MappingProxyType({})
    """Its tools that show one file, by name. If empty, reads are not recorded."""
    searches: tuple[str, ...] = ()
    """Its tools that search text in files."""
    shows_nothing: tuple[str, ...] = ()
    """Other tools that show no line of a file."""
    context: str = "additionalContext"
    """The key in the answer for text that the agent reads."""
    hears_with_prompt: bool = True
    """Whether the agent reads this text with a prompt."""
    hears_with_call: Literal["", "context", "denial"] = ""
    """How the agent gets a decision with the first call after a prompt, if it gets none with the prompt: as text with
    the allowed call, or as the reason of its denial. Empty if it gets decisions with prompts.
    """
    milliseconds: bool = False
    """Whether its time limits are in milliseconds; otherwise in seconds."""
    longest_limit: int = 0
    """The longest limit in seconds that its settings accept; 0 for no bound."""
    config: str = ""
    """Path of another settings file that can turn hooks off; empty if there is none."""
    default_limit: float = 60
    """Default time limit of a hook in seconds, the shortest of all releases; 0 for no limit."""
    on_failure: Mapping[str, str] = MappingProxyType({})
    """Settings beside the command that turn a hook without an answer into a denial; empty if there are none."""
    silent_denial: bool = False
    """Whether exit code 2 without a message is a denial, too."""
    fails_open: bool = False
    """Whether a tested release lets a call through after other failures of the hook."""

    def find_program(self, root: Path) -> str | None:
        """Return the path of the installed program; None if it is not on the PATH outside the workspace `root`."""
        from app.sandbox.environment import find_program_outside_workspace

        return find_program_outside_workspace(self.program_name or self.name, root)

    @property
    def settings_label(self) -> str:
        """Return the displayed name of the settings file to change."""
        return self.settings or f"~/{self.user_settings}"

    def settings_files(self, root: Path) -> list[tuple[str, Path]]:
        """Return its settings files with their displayed names: the project's, the uncommitted ones, the user's."""
        users = self.settings if self.user_settings is None else self.user_settings
        return _named_files_in(root, self.settings, self.local) + _named_files_in(Path.home(), users, shown="~/")

    def files_that_can_disable_hooks(self, root: Path) -> list[tuple[str, Path]]:
        """Return all files that can turn its hooks off, each with its displayed name."""
        return [
            *self.settings_files(root),
            *_named_files_in(root, self.config),
            *_named_files_in(Path.home(), self.config, shown="~/"),
        ]


def _named_files_in(folder: Path, *names: str, shown: str = "") -> list[tuple[str, Path]]:
    return [(f"{shown}{name}", folder / name) for name in names if name]


_CLAUDE_EDIT = ReplacementTool(
    uses_crlf=begins_with_mostly_crlf, keeps_new_text=True, takes_line_end=True, fills_blank=True
)
_COPILOT_EDIT = ReplacementTool(
    path="path",
    old="old_str",
    new="new_str",
    everywhere="",
    uses_crlf=begins_with_mostly_crlf,
    changes_all_endings=False,
    takes_line_end=True,
    makes_new=False,
).apply
_COPILOT_CREATE = WholeFileTool(path="path", content="file_text", only_new=True).apply


def _copilot_edit(files: "InMemoryFilesOfOneCall", arguments: Mapping[str, Any]) -> None:
    """Change a file or apply a patch: with some models, the tool of this name takes a patch."""
    (apply_codex_patch if arguments.get("input") else _COPILOT_EDIT)(files, arguments)


AGENTS = (
    ExternalAgent(
        "claude",
        "Claude Code",
        {
            "Edit": _CLAUDE_EDIT.apply,
            "MultiEdit": _CLAUDE_EDIT._replace(edits="edits").apply,
            "Write": WholeFileTool(keeps_mark=True).apply,
            "NotebookEdit": apply_claude_notebook_edit,
        },
        ("Bash", "PowerShell", "Monitor"),
        DenialFormat(ends_turn=True),
        ".claude/settings.json",
        "Start it anew in this folder.",
        project_variable="CLAUDE_PROJECT_DIR",
        response=find_claude_response,
        after_turn="Stop",
        after_tool="PostToolUse",
        reads=MappingProxyType({"Read": ReadToolRangeArguments("offset", "limit")}),
        searches=("Grep",),
        shows_nothing=(
            "AskUserQuestion",
            "EnterPlanMode",
            "ExitPlanMode",
            "Glob",
            "LS",
            "TodoWrite",
            "ToolSearch",
            "WebFetch",
            "WebSearch",
        ),
        local=".claude/settings.local.json",
        on_failure=MappingProxyType({"onFailure": "block"}),
        silent_denial=True,
    ),
    ExternalAgent(
        "codex",
        "Codex",
        {"apply_patch": apply_codex_patch},
        ("Bash", "shell", "exec_command", "local_shell"),
        DenialFormat(on_stderr=True),
        ".codex/hooks.json",
        "Start it anew in this folder, trust the folder, and trust the hooks with its command /hooks: until then it "
        "passes them over.",
        response=find_codex_response,
        after_turn="Stop",
        config=".codex/config.toml",
    ),
    ExternalAgent(
        "gemini",
        "Gemini CLI",
        {
            "write_file": WholeFileTool(uses_crlf=has_crlf).apply,
            "replace": ReplacementTool(
                everywhere="allow_multiple", expected="expected_replacements", keeps_last_ending=True
            ).apply,
        },
        ("run_shell_command",),
        DenialFormat(ends_turn=True, is_flat=True),
        ".gemini/settings.json",
        "Start it anew in this folder, and trust the folder.",
        project_variable="GEMINI_PROJECT_DIR",
        response=find_last_gemini_response,
        before_tool="BeforeTool",
        before_prompt="BeforeAgent",
        after_turn="AfterAgent",
        after_tool="AfterTool",
        reads=MappingProxyType({"read_file": ReadToolRangeArguments("start_line", end="end_line")}),
        searches=("grep_search", "search_file_content"),
        shows_nothing=("ask_user", "glob", "google_web_search", "list_directory", "save_memory", "write_todos"),
        milliseconds=True,
    ),
    ExternalAgent(
        "qwen",
        "Qwen Code",
        {
            "write_file": WholeFileTool(uses_crlf=has_crlf, keeps_mark=True).apply,
            "edit": ReplacementTool(keeps_new_text=True, takes_line_end=True).apply,
            "notebook_edit": apply_qwen_notebook_edit,
        },
        ("run_shell_command", "monitor"),
        DenialFormat(on_stderr=True),
        ".qwen/settings.json",
        "Start it anew in this folder, and trust the folder.",
        project_variable="QWEN_PROJECT_DIR",
        response=find_last_qwen_response,
        fails_open=True,
    ),
    ExternalAgent(
        "copilot",
        "Copilot CLI",
        {
            "create": _COPILOT_CREATE,
            "Write": _COPILOT_CREATE,
            "edit": _copilot_edit,
            "Edit": _copilot_edit,
            "apply_patch": apply_codex_patch,
        },
        ("bash", "Bash", "powershell", "write_bash"),
        DenialFormat(hides_words=True),
        ".github/hooks/signoff.json",
        "Start it anew in this folder, and trust the folder: until then it passes hooks over.",
        project_variable="COPILOT_PROJECT_DIR",
        user_settings=".copilot/hooks/signoff.json",
        hears_with_prompt=False,
        hears_with_call="context",
        default_limit=30,
        silent_denial=True,
    ),
    ExternalAgent(
        "opencode",
        "OpenCode",
        {
            "write": WholeFileTool(path="filePath", keeps_mark=True).apply,
            "edit": ReplacementTool(
                path="filePath", old="oldString", new="newString", everywhere="replaceAll", changes_all_endings=False
            ).apply,
            "apply_patch": apply_codex_patch,
        },
        ("bash",),
        DenialFormat(on_stderr=True),
        ".opencode/plugin/signoff.js",
        "Start it anew in this folder.",
        form="plugin",
        user_settings=".config/opencode/plugin/signoff.js",
        default_limit=0,
        silent_denial=True,
    ),
    ExternalAgent(
        "droid",
        "Droid",
        {
            "Create": WholeFileTool(uses_crlf=has_mostly_crlf, keeps_mark=True, ends_line=True).apply,
            "Edit": ReplacementTool(
                old="old_str",
                new="new_str",
                everywhere="change_all",
                uses_crlf=has_mostly_crlf,
                makes_new=False,
                keeps_last_ending=True,
            ).apply,
            "ApplyPatch": apply_codex_patch,
        },
        ("Execute",),
        # Ending the turn would leave a call without a result in the session.
        DenialFormat(),
        ".factory/settings.json",
        "Start it anew in this folder.",
        project_variable="FACTORY_PROJECT_DIR",
        response=find_last_droid_response,
        # Without a screen (`droid exec`) it calls no hook before a prompt.
        hears_with_call="denial",
        fails_open=True,
        config=".factory/hooks.json",
        silent_denial=True,
    ),
    ExternalAgent(
        "kimi",
        "Kimi Code",
        {
            "Write": WholeFileTool(path="path", mode="mode").apply,
            "Edit": ReplacementTool(
                path="path",
                uses_crlf=has_only_crlf,
                changes_all_endings=False,
                keeps_new_text=True,
                makes_new=False,
                drops_mark=True,
            ).apply,
        },
        ("Bash",),
        DenialFormat(on_stderr=True),
        "",
        "Start it anew.",
        form="toml",
        user_settings=".kimi-code/config.toml",
        context="message",
        fails_open=True,
        longest_limit=600,
        default_limit=30,
        silent_denial=True,
    ),
)


def find_agent(name: str) -> ExternalAgent:
    """Return the agent with a name."""
    return next(agent for agent in AGENTS if agent.name == name)


def find_agent_with_edit_tool(tool: str) -> ExternalAgent | None:
    """Return the first agent that has a writing tool of this name; None if there is none."""
    return next((agent for agent in AGENTS if tool in agent.edits), None)


DEFAULT_LIMIT_SECONDS = 30
"""Seconds within which a call is answered, in addition to `--wait`."""
_MAX_WAIT_SECONDS = 86_400


class HookOptions(NamedTuple):
    """The command-line options of `signoff hook`: wait, time limit, and the answers to shell commands."""

    wait: int = 0
    commands: str = "allow"
    """deny, ask or allow: the answer to shell commands while nothing is pending."""
    decisions: str = "deny"
    """deny or allow: the answer to shell commands that decide in signoff."""
    limit: int = DEFAULT_LIMIT_SECONDS

    @property
    def max_seconds(self) -> int:
        """Return the maximum duration of the hook in seconds."""
        return self.wait + self.limit

    def __str__(self) -> str:
        """Return the arguments after `signoff hook AGENT`; empty if all are defaults."""
        chosen = zip(self._fields, self, self._field_defaults.values(), strict=True)
        return " ".join(f"--{name} {value}" for name, value, default in chosen if value != default)

    @classmethod
    def from_arguments(cls, arguments: argparse.Namespace) -> "HookOptions":
        """Return the options that `add_hook_options` added to a parser."""
        return cls(*(getattr(arguments, name) for name in cls._fields))


def parse_hook_arguments(arguments: Sequence[str]) -> tuple[str, str, HookOptions]:
    """Parse the arguments of `signoff hook`: agent, workspace (empty: the agent's own) and options.

    Raises SystemExit.

    It has its own parser: making the parser of all commands takes longer than an answer.
    """
    parser = argparse.ArgumentParser(prog="signoff hook", allow_abbrev=False)
    add_all_hook_arguments(parser)
    found = parser.parse_args(arguments)
    return found.agent, found.workspace, HookOptions.from_arguments(found)


def add_all_hook_arguments(parser: argparse.ArgumentParser) -> None:
    """Add all arguments of `signoff hook` to a parser: the agent, the workspace and the options."""
    parser.add_argument("agent", choices=[agent.name for agent in AGENTS], help="which agent calls")
    parser.add_argument("--workspace", default="", metavar="FOLDER", help="the workspace (default: the agent's)")
    add_hook_options(parser)


def add_hook_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the hook to a parser."""
    parser.add_argument(
        "--wait",
        type=parse_seconds,
        default=0,
        metavar="SECONDS",
        help="hold an edit until you have decided, up to SECONDS, and return the decision as its result",
    )
    parser.add_argument(
        "--commands",
        choices=("deny", "ask", "allow"),
        default="allow",
        help="answer to its shell commands (allow: its own rules decide; signoff does not see what they write)",
    )
    parser.add_argument(
        "--decisions",
        choices=("deny", "allow"),
        default="deny",
        help="answer to its shell commands that decide in signoff (approve, deny, undo, redo, stage …) and, in "
        "Codex, that start a shell; recognised by their words, which an agent can avoid (default: deny)",
    )
    parser.add_argument(
        "--limit",
        type=parse_positive_seconds,
        default=DEFAULT_LIMIT_SECONDS,
        metavar="SECONDS",
        help="answer within that time, --wait apart; a call that takes longer is denied "
        f"(default: {DEFAULT_LIMIT_SECONDS})",
    )


def parse_seconds(text: str) -> int:
    """Parse whole seconds, at most a day, for argparse. Raises ArgumentTypeError."""
    if not (text.isascii() and text.isdecimal() and len(text) < 6 and int(text) <= _MAX_WAIT_SECONDS):
        raise argparse.ArgumentTypeError(f"give whole seconds, up to {_MAX_WAIT_SECONDS}")
    return int(text)


def parse_positive_seconds(text: str) -> int:
    """Return a number of seconds above 0. Raises ArgumentTypeError."""
    if not parse_seconds(text):
        raise argparse.ArgumentTypeError(f"give whole seconds, from 1 to {_MAX_WAIT_SECONDS}")
    return int(text)
