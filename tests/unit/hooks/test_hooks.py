"""Hooks as they run: told of one event after the other, ended with all they started, and never in the way."""

import json
import os
import random
import sys
import threading
import tracemalloc
from pathlib import Path

import pytest

from app.automation.event_hooks import MAX_QUEUED_EVENTS, HookEventDocument, HookEventFile, HookRunner
from app.config.config_tables import EventHookTable
from tests.unit.tools.processes import running


def ended(number: int = 0) -> HookEventDocument:
    return HookEventDocument(event="turn_ended", workspace="/w", session="s", time=1.0, message=str(number))


def runner(root: Path, **environment: str) -> tuple[HookRunner, list[str]]:
    """Return a runner and the lines that the user is shown."""
    made, told = HookRunner(root, {"PATH": os.environ["PATH"], **environment}), list[str]()
    made.report = told.append
    return made, told


def run(root: Path, command: str, document: HookEventDocument | None = None, **environment: str) -> list[str]:
    """Run one hook to its end; return the lines that the user is shown."""
    hooks, told = runner(root, **environment)
    hooks.queue_event([EventHookTable(on="turn_ended", run=command)], document or ended())
    hooks.close()
    return told


def test_events_come_in_their_order_one_at_a_time(tmp_path: Path) -> None:
    run = "test ! -e busy && touch busy && cat >>out && rm busy"
    hooks, told = runner(tmp_path)
    for number in range(12):
        hooks.queue_event(
            [EventHookTable(on="turn_ended", run=run), EventHookTable(on="question", run="touch wrong")],
            ended(number),
        )
    hooks.close()
    lines = [json.loads(line) for line in (tmp_path / "out").read_text().splitlines()]
    assert [line["message"] for line in lines] == [str(number) for number in range(12)]
    assert told == [] and not (tmp_path / "wrong").exists()


def test_only_the_end_of_a_hooks_output_is_kept_and_unread_input_does_not_block(tmp_path: Path) -> None:
    document = ended().model_copy(update={"message": "x" * 2_000_000})
    tracemalloc.start()
    try:
        (line,) = run(tmp_path, "head -c 20000000 /dev/zero; echo; echo said; exit 1")
        assert tracemalloc.get_traced_memory()[1] < 5_000_000
    finally:
        tracemalloc.stop()
    assert line.endswith("failed (exit 1): said")
    (line,) = run(tmp_path, "head -c 20000000 /dev/zero; exit 1", document)
    assert len(line) <= 160


def test_a_hook_gets_no_key_and_paths_that_are_not_utf_8_escaped(tmp_path: Path) -> None:
    keys = {"OPENAI_API_KEY": "sk-1", "SIGNOFF_API_KEY": "x", "MY_TOKEN": "t"}
    file = HookEventFile(path="a\udcffb", op="edit", added=1, removed=0)
    document = ended().model_copy(update={"files": [file]})
    path = {"PATH": f"{tmp_path}/.venv/bin:.:/usr/bin:/bin", "LD_LIBRARY_PATH": f"{tmp_path}/lib:/usr/lib"}
    assert run(tmp_path, "cat >in; env >out", document, SIGNOFF_HOME="/home/of/signoff", **keys, **path) == []
    variables = dict(line.split("=", 1) for line in (tmp_path / "out").read_text().splitlines() if "=" in line)
    assert not keys.keys() & variables.keys()
    assert (variables["SIGNOFF_HOME"], variables["SIGNOFF_IN_HOOK"]) == ("/home/of/signoff", "1")
    assert variables["PATH"] == "/usr/bin:/bin", "a command of the model writes to .venv/bin"
    assert variables["LD_LIBRARY_PATH"] == "/usr/lib"
    assert json.loads((tmp_path / "in").read_bytes())["files"][0]["path"] == "a\udcffb"


@pytest.mark.parametrize(
    ("run", "said"),
    [
        ("echo out; echo 'no \033[31m such host' >&2; exit 3", "failed (exit 3): no ␛[31m such host"),
        ("kill -9 $$", "failed (ended by signal SIGKILL)"),
        ("exec /no/such/program", "failed (exit 127)"),
    ],
)
def test_a_failure_is_one_line_and_said_once_in_a_row(tmp_path: Path, run: str, said: str) -> None:
    hooks, told = runner(tmp_path)
    for number in range(3):
        hooks.queue_event([EventHookTable(on="turn_ended", run=run)], ended(number))
    hooks.close()
    (line,) = told
    assert said in line and "\n" not in line and "\033" not in line


def test_a_hook_that_cannot_be_started_is_reported_and_loses_no_event(tmp_path: Path) -> None:
    hooks, told = runner(tmp_path)
    for number in range(2):
        hooks.queue_event(
            [EventHookTable(on="turn_ended", run="true \0"), EventHookTable(on="turn_ended", run="cat >>out")],
            ended(number),
        )
    hooks.close()
    (line,) = told
    assert "cannot run: embedded null byte" in line
    assert len((tmp_path / "out").read_text().splitlines()) == 2
    (line,) = run(tmp_path / "gone", "true")
    assert "cannot run: " in line and "No such file or directory" in line


def test_closing_before_a_hook_has_started_does_not_wait(tmp_path: Path) -> None:
    before = sys.getswitchinterval()
    # So that it ends at any instant of the other thread's beginning.
    sys.setswitchinterval(1e-6)
    try:
        for _ in range(20):
            hooks, told = runner(tmp_path)
            hooks.patience = 0.0
            hooks.queue_event([EventHookTable(on="turn_ended", run="sleep 60", seconds=1)], ended())
            hooks.close()
            assert told == []
    finally:
        sys.setswitchinterval(before)


def test_events_after_the_end_run_no_hook(tmp_path: Path) -> None:
    hooks, told = runner(tmp_path)
    first, later = (
        EventHookTable(on="turn_ended", run="touch first"),
        EventHookTable(on="turn_ended", run="touch later"),
    )
    hooks.queue_event([first], ended())
    hooks.close()
    hooks.queue_event([first, later], ended())
    assert not [each for each in threading.enumerate() if each.name == "hook on turn_ended"]
    assert [each.name for each in tmp_path.iterdir()] == ["first"]
    assert told == []


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="reads /proc")
@pytest.mark.parametrize("why", ["limit", "exit"])
def test_hook_is_ended_with_its_children(tmp_path: Path, why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    broken: list[object] = []
    monkeypatch.setattr(threading, "excepthook", broken.append)
    mark = f"{random.randrange(10**6, 10**7)}.5"
    hooks, told = runner(tmp_path)
    hooks.patience = 0.0 if why == "exit" else None
    # It tells by a pipe that it has begun: an exit that comes sooner ends it all the same.
    os.mkfifo(tmp_path / "begun")
    run = f"setsid sh -c 'trap \"\" TERM; echo >begun; sleep {mark}' & sleep {mark}"
    hooks.queue_event([EventHookTable(on="turn_ended", run=run, seconds=0.5 if why == "limit" else 60)], ended())
    if why == "exit":
        (tmp_path / "begun").read_text()
        hooks.queue_event([EventHookTable(on="turn_ended", run=run, seconds=60)], ended())
    else:
        threading.Thread(target=(tmp_path / "begun").read_text, daemon=True).start()
    hooks.close()
    assert not running(mark) and broken == []
    assert [line.partition(") ")[2] for line in told] == (
        ["was ended after 0.5 s, its time limit"] if why == "limit" else []
    )


def test_too_many_events_drop_the_oldest(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "go")
    hooks, told = runner(tmp_path)
    hook = EventHookTable(on="turn_ended", run="test -e went || read x <go; touch went; cat >>out")
    for number in range(MAX_QUEUED_EVENTS + 50):
        hooks.queue_event([hook], ended(number))
    assert len(told) == 1 and "oldest" in told[0]
    (tmp_path / "go").write_text("x\n")
    hooks.close()
    numbers = [int(json.loads(line)["message"]) for line in (tmp_path / "out").read_text().splitlines()]
    assert (
        numbers[-1] == MAX_QUEUED_EVENTS + 49 and len(numbers) <= MAX_QUEUED_EVENTS + 1 and numbers == sorted(numbers)
    )
