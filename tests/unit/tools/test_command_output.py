"""What a command leaves: its output, its environment, and the files that it changed."""

import asyncio
import os
import random
import threading
import tracemalloc
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.sandbox.captured_changes import PathChange
from app.sandbox.environment import command_environment
from app.sandbox.process import MARKER_VARIABLE
from app.tools.base.contract import PermissionAnswer
from app.tools.command import command_result
from app.tools.command.command_result import (
    HeadAndTailBuffer,
    PlainTextDecoder,
    ThrottledOutput,
    remove_text_overwritten_by_cr,
)
from tests.unit.tools.memory_draft import Bench, Report

SEQUENCES = [
    *(b"\x1b[31m", b"\x1b[0;1;38;2;1;2;3m", b"\x1b[2K", b"\x1b[?25l", b"\x1b]0;title\x07", b"\x1bPq#0\x1b\\"),
    *(b"\x1b]8;;https://example.invalid\x1b\\", b"\x1b]52;c;Zm9v\x07", b"\x1b(B", b"\x1b7", b"\x1b="),
    *(b"\xc2\x9b31m", b"\xc2\x9d0;title\xc2\x9c"),
]


def test_the_text_is_the_same_wherever_the_output_is_cut() -> None:
    whole = [(b"before" + sequence + b"after", "beforeafter") for sequence in SEQUENCES]
    for data, expected in (*whole, ("naïve 漢字 🙂".encode(), "naïve 漢字 🙂")):
        for cut in range(len(data) + 1):
            plain = PlainTextDecoder()
            text = plain.feed(data[:cut]) + plain.feed(data[cut:]) + plain.feed(b"", final=True)
            assert text == expected, (data, cut)


def test_unfinished_sequences_delay_limited_text_and_take_linear_time() -> None:
    assert len(PlainTextDecoder().feed(b"\x1b]0;" + b"x" * 2000)) > 1000
    for piece in (b"\x1b]", b"\xc2\x90", b"\x1b[", b"\x1bP\x1b", b"\r"):
        remove_text_overwritten_by_cr(PlainTextDecoder().feed(piece * 200_000))


@given(st.lists(st.text(alphabet="ab\n", max_size=40), max_size=20), st.integers(0, 20), st.integers(0, 20))
def test_head_and_tail_are_kept_and_the_rest_is_counted(pieces: list[str], head: int, tail: int) -> None:
    kept = HeadAndTailBuffer(head, tail)
    for piece in pieces:
        kept.feed(piece)
    whole = "".join(pieces)
    assert kept.lines == whole.count("\n")
    if len(whole) <= head + tail:
        assert kept.text() == whole
        return
    gone = whole[head : len(whole) - tail]
    newlines = gone.count("\n")
    last = whole[len(whole) - tail :]
    assert kept.text() == f"{whole[:head]}\n[{len(gone):,} characters with {newlines:,} newlines left out]\n{last}"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("10%\r50%\r100%\ndone\n", "100%\ndone\n"),
        ("a\r\nb\r\n", "a\nb\n"),
        ("plain\n", "plain\n"),
        ("50%\r", "50%"),
    ],
)
def test_overwritten_lines_are_removed(text: str, expected: str) -> None:
    assert remove_text_overwritten_by_cr(text) == expected


async def test_live_output_is_joined_and_complete_and_arrives_without_a_flush() -> None:
    sent: list[str] = []
    live = ThrottledOutput(sent.append)
    for number in range(1000):
        live.feed(f"{number}\n")
    await asyncio.sleep(0)
    assert len(sent) < 5
    live.flush()
    assert "".join(sent) == "".join(f"{number}\n" for number in range(1000))
    arrived = asyncio.Event()
    live = ThrottledOutput(lambda text: arrived.set())
    live.feed("x")
    await asyncio.wait_for(arrived.wait(), 10)


def test_a_flood_in_pieces_takes_no_memory_while_the_screen_is_late() -> None:
    async def flood() -> tuple[list[str], int]:
        sent: list[str] = []
        plain, kept, live = PlainTextDecoder(), HeadAndTailBuffer(), ThrottledOutput(sent.append)
        piece = b"a line of a flood\n" * 3_600
        tracemalloc.start()
        for _ in range(500):
            text = plain.feed(piece)
            kept.feed(text)
            live.feed(text)
        live.feed("end")
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        live.flush()
        return sent, most

    [text], most = asyncio.run(flood())
    assert text.startswith("…\n") and text.endswith("flood\nend") and len(text) < 20_000
    assert most < 2_000_000


SECRETS = dict.fromkeys(
    [
        *("OPENAI_API_KEY", "OPENAI_BASE_URL", "ANTHROPIC_AUTH_TOKEN", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"),
        *("GITHUB_TOKEN", "github_token", "MY_SERVICE_APIKEY", "DB_PASSWORD", "PGPASSWORD", "CLIENT_SECRET"),
        *("SIGNING_KEY", "GOOGLE_APPLICATION_CREDENTIALS", "SIGNOFF_HOME", "DB_PASS", "SSHPASS", "MYSQL_PWD", "DSN"),
        *("SENTRY_DSN", "NPM_AUTH", "REGISTRY_AUTH_FILE", "SITE_COOKIE", "SESSIONID", "WEBHOOK"),
    ],
    "x",
) | {
    "DATABASE_URL": "postgres://me:hunter2@host/db",
    "HARMLESS": "ghp_abcdefghijklmnop",
    "BASH_ENV": "/tmp/x",
    "TMUX": "/tmp/tmux-0/default,1,0",
    "NOTIFY": "https://hooks.slack.com/services/T0/B0/abc",
    "ERRORS_TO": "https://abc123@o1.ingest.example.org/2",
    "SIGNED_IN": "eyJhbGciOi.eyJzdWIi.abc",
    "BASH_FUNC_ls%%": "() { evil; }",
}
ORDINARY = {
    **{"PATH": "/bin", "HOME": "/h", "LANG": "C", "VIRTUAL_ENV": "/v", "PWD": "/p", "OLDPWD": "/o"},
    **{"https_proxy": "http://proxy:3128/", "LC_ALL": "C.UTF-8", "GOFLAGS": "-mod=mod", "CARGO_BUILD_JOBS": "2"},
    "PYTHONPATH": "/p",
}
UNKNOWN = dict.fromkeys(["COMPASS_X", "KEYBOARD", "SSH_AUTH_SOCK", "NVIM", "DISPLAY", "VSCODE_IPC_HOOK_CLI"], "1")
"""Not secret by name or value, and not known to be needed: they may lead to a program that acts for the user."""


def test_secrets_are_not_passed_on() -> None:
    everything = list({**SECRETS, **ORDINARY, **UNKNOWN}.items())
    random.Random(1).shuffle(everything)
    environment = command_environment(dict(everything), "mark")
    assert not (SECRETS.keys() | UNKNOWN.keys()) & environment.keys()
    assert ORDINARY.items() <= environment.items()
    assert environment[MARKER_VARIABLE] == "mark"
    assert environment["GIT_TERMINAL_PROMPT"] == "0"
    named = command_environment(dict(everything), "mark", ("COMPASS_*", "GITHUB_TOKEN", "OPENAI_API_KEY"))
    assert named["COMPASS_X"] == "1" and named["GITHUB_TOKEN"] == "x", "the user names what else is passed on"
    assert "OPENAI_API_KEY" not in named, "signoff's own key never is"


def test_git_settings_with_a_secret_are_left_out_without_a_gap() -> None:
    settings = [
        ("url.https://me:hunter2@example.org/.insteadOf", "https://example.org/"),
        ("user.name", "me"),
        ("http.https://example.org/.extraheader", "AUTHORIZATION: basic aHVudGVyMg=="),
        ("core.editor", "ed"),
    ]
    environment = {"GIT_CONFIG_COUNT": "4"}
    for number, (key, value) in enumerate(settings):
        environment |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
    passed = command_environment(environment, "mark")
    wanted = {"COUNT": "2", "KEY_0": "user.name", "VALUE_0": "me", "KEY_1": "core.editor", "VALUE_1": "ed"}
    assert {name[11:]: value for name, value in passed.items() if name.startswith("GIT_CONFIG_")} == wanted


@pytest.fixture
def allowed(bench: Bench) -> Bench:
    bench.answer = PermissionAnswer(True)
    return bench


@pytest.mark.parametrize(
    ("limit", "reason"),
    [("MAX_CHANGE_BYTES", "all that was changed is over 10 B"), ("MAX_CHANGED_FILE_BYTES", "larger than 10 bytes")],
)
async def test_files_that_are_too_large_are_left_out_and_named(
    allowed: Bench, monkeypatch: pytest.MonkeyPatch, limit: str, reason: str
) -> None:
    monkeypatch.setattr(command_result, limit, 10)
    output = await allowed.call("run_command", command="echo 1 > a; echo a long line > b; echo 3 > c")
    assert f"[not kept: b: {reason}]" in output.text
    assert allowed.draft.held == {"a": b"1\n", "c": b"3\n"}


async def test_names_that_no_tool_may_use_are_listed_once_on_one_line(allowed: Bench) -> None:
    output = await allowed.call("run_command", command="mkdir -p sub/.git; echo x > sub/.git/x; echo x > 'a\nb'")
    assert "[not kept: a␊b: has control characters, sub/.git" in output.text
    assert "belongs to git; tools don't touch it]" in output.text and "'.git'" not in output.text


@pytest.mark.layer
async def test_files_changed_by_another_process_are_left_out(allowed: Bench) -> None:
    root, go = allowed.workspace.root, allowed.shared / "go"
    os.mkfifo(go)
    (root / "a").write_text("before\n")

    def change_meanwhile() -> None:
        # It is opened once the command reads it, and ends what it reads when it is closed.
        with go.open("w"):
            (root / "a").write_text("somebody else\n")

    changing = asyncio.create_task(asyncio.to_thread(change_meanwhile))
    output = await allowed.call("run_command", command=f"echo mine > a; echo b > b; cat {go}")
    await changing
    assert "[not kept: a: changed on disk by someone else while the command ran]" in output.text
    assert allowed.draft.held == {"b": b"b\n"}
    assert (root / "a").read_text() == "somebody else\n"


async def test_a_cancelled_command_stages_nothing(allowed: Bench) -> None:
    entered, leave, left, take = threading.Event(), threading.Event(), threading.Event(), allowed.draft.add_changes

    def slow(changes: Sequence[PathChange], recipe: object) -> Report:
        entered.set()
        leave.wait(10)
        report: Report = take(changes)
        left.set()
        return report

    allowed.draft.add_changes = slow
    call = asyncio.create_task(allowed.call("run_command", command="echo 1 > a"))
    await asyncio.to_thread(entered.wait, 10)
    call.cancel()
    await asyncio.sleep(0)
    leave.set()
    with pytest.raises(asyncio.CancelledError):
        await call
    await asyncio.to_thread(left.wait, 10)
    assert allowed.draft.held == {}
