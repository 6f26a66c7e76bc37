"""Forms of commands that a user may allow for good: a simple command's first words, and whatever follows them.

A form is only ever matched against the words that a shell would pass, so nothing after `;`, `&&` or `|`, in a
substitution or behind a redirection can slip through: a command that has any of these is of no form at all.
"""

import json
import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from app.tools.command.shell_words import NotSimple, Word, simple_command


def _named(names: str) -> frozenset[str]:
    return frozenset(names.split())


_ALONE = _named(
    "env sudo doas su xargs eval exec command builtin nohup nice ionice timeout setsid stdbuf watch parallel find fd "
    "time chrt taskset setarch prlimit numactl fakeroot setpriv runuser pkexec capsh systemd-run dbus-run-session "
    "xvfb-run run-parts start-stop-daemon at batch crontab hyperfine valgrind perf rlwrap unbuffer direnv mise asdf "
    "nix nix-shell tar ed ex vi vim nvim emacs less more man screen tmux sqlite psql mysql "
    "sed awk gawk mawk busybox script unshare chroot nsenter strace ltrace gdb source . trap npx pnpx bunx uvx pipx "
    "osascript expect tclsh entr flock rm rmdir shred dd truncate tee install mv cp ln chmod chown chgrp kill pkill "
    "killall curl wget nc ncat socat ssh scp sftp rsync ftp telnet"
)
"""Programs that run, write, delete or send whatever their arguments say: each command of theirs is allowed alone."""
_INTERPRETERS = _named(
    "sh bash rbash dash ash zsh ksh mksh csh tcsh fish nu pwsh python pypy ipython node nodejs ts-node tsx deno bun "
    "ruby perl php lua luajit rscript julia guile racket groovy elixir erl ghci scala"
)
"""Programs whose first argument must be a file, or a module, to be a form: with an option it can be code."""
_ALONE_TOO = frozenset((("git", "bisect"), ("git", "config"), ("git", "filter-branch"), ("git", "submodule")))
_RUNNERS = frozenset(
    {
        *(("uv", "run"), ("poetry", "run"), ("pdm", "run"), ("hatch", "run"), ("pipenv", "run"), ("rye", "run")),
        *(("npm", "exec"), ("pnpm", "exec"), ("pnpm", "dlx"), ("yarn", "exec"), ("yarn", "dlx"), ("bundle", "exec")),
        *(("npm", "x"), ("bun", "x"), ("deno", "run"), ("conda", "run"), ("rustup", "run")),
        *(("npm", "run"), ("pnpm", "run"), ("yarn", "run"), ("deno", "task"), ("bun", "run"), ("docker", "compose")),
    }
)
"""Pairs of words behind which the name of what is run stands."""
_WITH_SUBCOMMANDS = _named(
    "git hg jj svn gh glab npm pnpm yarn cargo go uv pip pip3 poetry pdm hatch rye conda docker podman kubectl helm "
    "terraform aws gcloud az systemctl brew apt apt-get dnf rustup dotnet mvn gradle bundle gem mix cmake"
)
"""Programs of which the next word says what they do."""
_RUN_MORE = {
    "git": (
        *("--exec", "--extcmd", "--ext-diff", "--open-files-in-pager", "--output", "--receive-pack", "--upload-pack"),
        *("-O", "-x"),
    ),
    "rg": ("--hostname-bin", "--pre"),
    "sort": ("--compress-program", "--output", "-o"),
}
"""Options by which a program that only looks runs another one, or writes where it is told to."""


@dataclass(frozen=True, slots=True)
class CommandForm:
    """What a user allows: these words, and with `open` any that follow."""

    words: tuple[str, ...]
    open: bool

    def matches(self, command: str) -> bool:
        """Whether a command line is of this form."""
        try:
            words = simple_command(command)
        except NotSimple:
            return False
        count = len(self.words)
        if len(words) < count or (len(words) > count and not self.open):
            return False
        if self.open and _runs_more(words):
            return False
        return all(word.literal and word.text == own for word, own in zip(words, self.words, strict=False))

    def __str__(self) -> str:
        """As a person reads it: `git diff …`."""
        return shlex.join(self.words) + (" …" if self.open else "")

    def dump(self) -> str:
        """As text that `load` reads."""
        return json.dumps([list(self.words), self.open], ensure_ascii=True)

    @classmethod
    def load(cls, text: str) -> "CommandForm":
        """The form that was dumped; raises ValueError."""
        match json.loads(text):
            case [[*words], bool(is_open)] if words and all(isinstance(word, str) for word in words):
                return cls(tuple(words), is_open)
        raise ValueError(f"not a form of a command: {text[:80]}")


def forms_of(command: str) -> tuple[CommandForm, ...]:
    """The forms of a command that may be allowed for good, the widest first, the command alone last.

    Raises:
        NotSimple: it is of no form; the message names why.
    """
    words = simple_command(command)
    texts = tuple(word.text for word in words)
    literal = next((at for at, word in enumerate(words) if not word.literal), len(words))
    least = None if _runs_more(words) else _least(words)
    wide = [] if least is None else [CommandForm(texts[:count], True) for count in range(least, literal + 1)]
    exact = [CommandForm(texts, False)] if literal == len(words) else []
    if not wide and not exact:
        raise NotSimple("names of files that are not told before it runs")
    return (*wide, *exact)


def _least(words: tuple[Word, ...]) -> int | None:
    """How many words the widest form of a command must have; None if only the very command may be allowed."""
    texts = [word.text for word in words]
    program = _program(words[0])
    second = texts[1] if len(texts) > 1 else ""
    if program in _ALONE or (program, second) in _ALONE_TOO:
        return None
    if (program, second) in _RUNNERS:
        return _behind(words, 2)
    if program in _INTERPRETERS:
        if program in ("python", "pypy") and second == "-m" and len(texts) > 2:
            return 3
    elif program not in _WITH_SUBCOMMANDS:
        return 1
    return 2 if second and not second.startswith("-") else None


def _program(word: Word) -> str:
    """The name of a program, whatever version of it: `python3.12` and, on macOS, `Python` are `python`."""
    name = word.text.rpartition("/")[2].casefold()
    return name.rstrip("0123456789.-") or name


def _runs_more(words: Sequence[Word]) -> bool:
    """Whether an option asks for more than the program alone does, whatever runs the program."""
    return any(
        _is_option(word.text, option)
        for at, program in enumerate(words)
        for option in _RUN_MORE.get(_program(program), ())
        for word in words[at + 1 :]
    )


def _is_option(word: str, option: str) -> bool:
    """Whether a word is this option, with a value or without; long ones may be cut short, short ones joined."""
    if option.startswith("--"):
        said = word.partition("=")[0]
        return len(said) > 3 and option.startswith(said)
    return word.startswith("-") and not word.startswith("--") and option[1] in word


def _behind(words: tuple[Word, ...], count: int) -> int | None:
    """The least for what is run behind `count` words."""
    rest = words[count:]
    if not rest or rest[0].text.startswith("-"):
        return None
    least = _least(rest)
    return None if least is None else count + least
