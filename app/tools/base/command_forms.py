"""Forms of commands that a user may allow permanently: the first words of a simple command.

A form is compared with the words that a shell would pass to the program. Commands with `;`, `&&`, `|`, substitutions
or redirections have no form, so none of these can hide another command.
"""

import json
import re
import shlex
from collections.abc import Sequence

from msgspec import Struct

_OPERATORS = frozenset(";&|<>()")
_RESERVED_WORD_LIST = (
    "! { } [ [[ ]] if then else elif fi do done case esac while until for select in function time coproc"
)
_RESERVED_WORDS = frozenset(_RESERVED_WORD_LIST.split())
_PATTERN_CHARACTERS = frozenset("*?[]~")
"""Characters of patterns that a shell may replace by file names."""
_ESCAPED_IN_QUOTES = frozenset('$`"\\')
_CHARACTER_NAMES = {"$": "a $", "`": "a backquote", "{": "a brace", "}": "a brace", "#": "a #", "\n": "a second line"}


class NotSimpleCommand(Exception):
    """The text is not one simple command; the message names the reason."""


class ShellWord(Struct, frozen=True):
    """A word of a shell command without its quotes, and whether the shell passes it on unchanged."""

    text: str
    """The text without quotes."""
    literal: bool = True
    """Whether the shell passes it unchanged; False if the shell may replace it by file names."""


def parse_simple_command(text: str) -> tuple[ShellWord, ...]:
    """Return the words of a simple command.

    Raises:
        NotSimpleCommand: it is empty, more than one command, or its words depend on the shell.
    """
    words = tuple(_WordReader(text.strip(" \t\n")).words())
    if not words:
        raise NotSimpleCommand("nothing")
    first = words[0]
    if "=" in first.text:
        raise NotSimpleCommand("a variable set before the command")
    if first.text in _RESERVED_WORDS or not first.literal or first.text.startswith("%"):
        raise NotSimpleCommand(f"{first.text} where a program should be named")
    return words


class _WordReader:
    """Splits a command line into words."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._position = 0

    def words(self) -> list[ShellWord]:
        found = []
        while self._position < len(self._text):
            if self._text[self._position] in " \t":
                self._position += 1
            else:
                found.append(self._read_word())
        return found

    def _read_word(self) -> ShellWord:
        parts: list[str] = []
        literal = True
        start = self._position
        while self._position < len(self._text) and (char := self._text[self._position]) not in " \t":
            self._position += 1
            match char:
                case "'":
                    parts.append(self._read_single_quoted())
                case '"':
                    parts.append(self._read_double_quoted())
                case "\\":
                    parts.append(self._read_escaped())
                case _:
                    self._check_unquoted(char, begins=self._position - 1 == start)
                    literal = literal and char not in _PATTERN_CHARACTERS
                    parts.append(char)
        return ShellWord("".join(parts), literal)

    def _check_unquoted(self, char: str, *, begins: bool) -> None:
        if char in _OPERATORS:
            raise NotSimpleCommand(f"a {char}")
        if char in "$`{}\n" or (char == "#" and begins):
            raise NotSimpleCommand(_CHARACTER_NAMES[char])
        if char.isspace() or not char.isprintable():
            raise NotSimpleCommand("an unusual blank or a control character")

    def _read_single_quoted(self) -> str:
        end = self._text.find("'", self._position)
        if end < 0:
            raise NotSimpleCommand("a quote that is not closed")
        quoted = self._text[self._position : end]
        self._position = end + 1
        return self._check_printable(quoted)

    def _read_double_quoted(self) -> str:
        parts: list[str] = []
        while self._position < len(self._text):
            char = self._text[self._position]
            self._position += 1
            if char == '"':
                return self._check_printable("".join(parts))
            if char in "$`":
                raise NotSimpleCommand(_CHARACTER_NAMES[char])
            following = self._text[self._position : self._position + 1]
            if char == "\\" and following == "\n":
                raise NotSimpleCommand(_CHARACTER_NAMES["\n"])
            if char == "\\" and following in _ESCAPED_IN_QUOTES and following:
                char = following
                self._position += 1
            parts.append(char)
        raise NotSimpleCommand("a quote that is not closed")

    def _read_escaped(self) -> str:
        char = self._text[self._position : self._position + 1]
        self._position += 1
        if char in ("", "\n"):
            raise NotSimpleCommand(_CHARACTER_NAMES["\n"])
        return self._check_printable(char)

    @staticmethod
    def _check_printable(quoted: str) -> str:
        if any(not char.isprintable() and char not in "\n\t" for char in quoted):
            raise NotSimpleCommand("a control character")
        return quoted


def _split_names(names: str) -> frozenset[str]:
    return frozenset(names.split())


def _split_pairs(pairs: str) -> frozenset[str]:
    return frozenset(pairs.split(", "))


_OPEN_PROGRAMS = _split_names(
    "ls cat head tail wc grep egrep fgrep rg diff cmp sort file stat du df tree jq bat batcat eza exa echo pwd true "
    "false date uname whoami id which type ps nproc basename dirname realpath readlink md5sum sha1sum sha256sum "
    "sha512sum pytest py.test tox nox ruff black isort flake8 pycodestyle pydocstyle pylint mypy pyright "
    "basedpyright ty bandit vulture codespell autopep8 yapf eslint prettier biome oxlint stylelint tsc vue-tsc jest "
    "vitest mocha ava webpack vite rollup esbuild rustfmt gofmt goimports gofumpt golangci-lint staticcheck "
    "shellcheck shfmt yamllint markdownlint hadolint actionlint clang-format ktlint swiftlint swiftformat rubocop "
    "rspec phpunit phpstan psalm make gmake just ninja bazel ctest gradlew mvnw"
)
"""Programs that only read, or that run code of the workspace whatever their arguments are.

Only they, and scripts of the workspace, may be followed by any words: no list could name all programs whose arguments
make them run, write, delete or send anything. Digits at the end of a name are left out: `diff` stands for `diff3`.
"""
_WORKSPACE_SCRIPT = re.compile(r"(?=.*/|.*\.py$)(?:\./)?(?:(?!node_modules/)\w[\w.-]*/)*\w[\w.-]*")
"""A path in the workspace that leads neither into a hidden folder, such as `.venv`, nor into packages of others."""
_INTERPRETERS = _split_names(
    "sh bash dash zsh ksh fish python pypy node nodejs ts-node tsx deno bun ruby perl php lua luajit rscript "
    "julia java"
)
"""Interpreters that pass all options after a file to it: a form needs a file or module as first argument."""
_NEVER_OPEN_SUBCOMMANDS = _split_pairs(
    "git bisect, git clone, git config, git filter-branch, git instaweb, git remote-ext, git send-email, "
    "git submodule, jj config, uv tool, deno eval, mix eval, mix run, cmake -E, cmake -P, npm explore, npm init, "
    "npm create, pnpm create, yarn create, bun create, rustup run"
)
_RUNNERS = _split_pairs(
    "uv run, poetry run, pdm run, hatch run, pipenv run, rye run, npm exec, npm x, pnpm exec, pnpm dlx, yarn exec, "
    "yarn dlx, bun run, bun x, bundle exec, conda run, mamba run, micromamba run, pixi run, pixi exec, devbox run"
)
"""Word pairs that are followed by the name of the program that runs."""
_SCRIPT_RUNNERS = _split_pairs(
    "npm run, npm run-script, pnpm run, yarn run, deno run, deno task, go run, python -m, pypy -m, docker compose"
)
"""Word pairs that are followed by the name of a script or module, or by a subcommand."""
_PACKAGE_COMMANDS = _split_names(
    "add audit build check ci format install lint list outdated remove start test typecheck up update upgrade why"
)
"""Words after `bun`, `pnpm` and `yarn`, which take others for the name of a program in `node_modules`."""
_HAVE_SUBCOMMANDS = _split_names(
    "git hg sl jj svn gh glab npm pnpm yarn cargo go uv pip pip3 poetry pdm hatch rye conda mamba micromamba pixi "
    "devbox docker podman kubectl helm terraform aws gcloud az systemctl brew apt apt-get dnf rustup dotnet "
    "gradle bundle gem mix cmake coverage pre-commit dart flutter swift zig"
)
"""Programs whose next word is a subcommand."""
_OPTIONS_THAT_RUN_PROGRAMS = {
    "git": (
        *("--exec", "--extcmd", "--ext-diff", "--open-files-in-pager", "--output", "--receive-pack", "--upload-pack"),
        *("-O", "-x"),
    ),
    "bat": ("--pager",),
    "batcat": ("--pager",),
    "bazel": ("--run_under",),
    "cargo": ("--config",),
    "diff": ("--diff-program",),
    "gmake": ("--eval", "-E", "="),
    "gradle": ("--init-script", "-I"),
    "go": ("-exec", "-ldflags", "-toolexec", "-vettool"),
    "helm": ("--kubeconfig", "--post-renderer"),
    "hg": ("--config", "--config-file", "--cwd", "--repository", "-R"),
    "jj": ("--config", "--config-file", "--config-toml", "--repository", "--tool", "-R"),
    "just": ("--chooser", "--command", "--shell", "-c", "="),
    "kubectl": ("--kubeconfig",),
    "make": ("--eval", "-E", "="),
    "mypy": ("--python-executable", "@"),
    "npm": ("--git", "--node-options", "--script-shell"),
    "pnpm": ("--node-options", "--script-shell"),
    "pylint": ("--init-hook", "--load-plugins"),
    "pyright": ("--pythonpath",),
    "rg": ("--hostname-bin", "--pre"),
    "tox": ("--override", "-x"),
    "sl": ("--config", "--configfile", "--cwd", "--repository", "-R"),
    "sort": ("--compress-program", "--output", "-o"),
    "svn": ("--config-dir", "--config-option", "--diff-cmd", "--diff3-cmd", "--editor-cmd"),
    "tree": ("-R", "-o"),
}
"""Options that make an otherwise harmless program run another one or write to a file.

`@` is a file of options, `=` a variable: `make 'X:=$(shell …)'` runs a command.
"""


class AllowableCommandPattern(Struct, frozen=True):
    """A pattern of commands to allow: exactly these words or, if `open`, any others after them, too."""

    words: tuple[str, ...]
    open: bool

    def matches(self, command: str) -> bool:
        """Return whether a command line has this form."""
        try:
            words = parse_simple_command(command)
        except NotSimpleCommand:
            return False
        count = len(self.words)
        if len(words) < count or (len(words) > count and not self.open):
            return False
        min_count = _min_word_count(words)
        if self.open and (min_count is None or count < min_count or _has_running_option(words)):
            return False
        return all(word.literal and word.text == own for word, own in zip(words, self.words, strict=False))

    def __str__(self) -> str:
        """Return the form for the user, e.g. `git diff …`."""
        return shlex.join(self.words) + (" …" if self.open else "")

    def dump(self) -> str:
        """Return the form as text for `load_permission_form`."""
        return json.dumps([list(self.words), self.open], ensure_ascii=True)

    @classmethod
    def load(cls, text: str) -> "AllowableCommandPattern":
        """Return the form from its text; raises ValueError."""
        match json.loads(text):
            case [[*words], bool(is_open)] if words and all(isinstance(word, str) for word in words):
                return cls(tuple(words), is_open)
        raise ValueError(f"not a form of a command: {text[:80]}")


def allowable_forms(command: str) -> tuple[AllowableCommandPattern, ...]:
    """Return the forms of a command that may be allowed permanently, the widest first. Raises NotSimpleCommand."""
    words = parse_simple_command(command)
    texts = tuple(word.text for word in words)
    literal = next((position for position, word in enumerate(words) if not word.literal), len(words))
    min_count = None if _has_running_option(words) else _min_word_count(words)
    wide = (
        []
        if min_count is None
        else [AllowableCommandPattern(texts[:count], True) for count in range(min_count, literal + 1)]
    )
    exact = [AllowableCommandPattern(texts, False)] if literal == len(words) else []
    if not wide and not exact:
        raise NotSimpleCommand("names of files that are not told before it runs")
    return (*wide, *exact)


def _min_word_count(words: tuple[ShellWord, ...]) -> int | None:
    """Return the fewest words that a form of a command must have; None if only the exact command may be allowed."""
    texts = [word.text for word in words]
    program = _program_name(words[0])
    second = texts[1] if len(texts) > 1 else ""
    pair = f"{program} {second}"
    if pair in _RUNNERS:
        min_count = _min_word_count(words[2:]) if len(texts) > 2 else None
        return None if min_count is None else 2 + min_count
    if pair in _SCRIPT_RUNNERS:
        return 3 if len(texts) > 2 and not texts[2].startswith("-") else None
    is_in_node_modules = program in ("bun", "pnpm", "yarn") and second not in _PACKAGE_COMMANDS and "." not in second
    if pair in _NEVER_OPEN_SUBCOMMANDS or is_in_node_modules:
        return None
    if program in _INTERPRETERS or program in _HAVE_SUBCOMMANDS:
        return 2 if second and not second.startswith("-") else None
    return 1 if program in _OPEN_PROGRAMS or _WORKSPACE_SCRIPT.fullmatch(texts[0]) else None


def _program_name(word: ShellWord) -> str:
    """Return the name of a program without its version: `python3.12` and, on macOS, `Python` are `python`."""
    name = word.text.rpartition("/")[2].casefold()
    return name.rstrip("0123456789.-") or name


def _has_running_option(words: Sequence[ShellWord]) -> bool:
    """Return whether an option may make a program run another one or write to a file."""
    return any(
        _is_option(word, option)
        for position, program in enumerate(words)
        for option in _OPTIONS_THAT_RUN_PROGRAMS.get(_program_name(program), ())
        for word in words[position + 1 :]
    )


def _is_option(shell_word: ShellWord, option: str) -> bool:
    """Return whether a word is this option, with or without a value; also abbreviated or combined with others.

    A pattern may be replaced by the name of a file that reads like the option.
    """
    word = shell_word.text
    if not shell_word.literal and (word[0] in "-*?[" or option == "="):
        return True
    option_name = word.partition("=")[0]
    if option == "@":
        return word.startswith(option)
    if option == "=":
        return not word.startswith("-") and option in word
    if option.startswith("--"):
        return len(option_name) > 2 and option.startswith(option_name)
    if len(option) > 2:
        # Go's options may begin with one or two dashes.
        return option_name in (option, f"-{option}")
    return word.startswith("-") and not word.startswith("--") and option[1] in word


class AllowableMcpTool(Struct, frozen=True):
    """Calls that the user can allow: those of one tool of an MCP server, with any arguments."""

    server: str
    tool: str
    fingerprint: str
    """Hash of the definitions of server and tool: a changed server or tool of the same name is not allowed."""

    def __str__(self) -> str:
        """Return the form for the user."""
        return f"{self.tool} of {self.server}"

    def dump(self) -> str:
        """Return the form as text for `load_permission_form`."""
        return json.dumps({"server": self.server, "tool": self.tool, "fingerprint": self.fingerprint})


def load_permission_form(text: str) -> AllowableCommandPattern | AllowableMcpTool:
    """Return the form that was dumped; raises ValueError."""
    match json.loads(text):
        case {"server": str(server), "tool": str(tool), "fingerprint": str(fingerprint)}:
            return AllowableMcpTool(server, tool, fingerprint)
    return AllowableCommandPattern.load(text)
