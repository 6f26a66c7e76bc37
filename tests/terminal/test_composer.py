"""Writing in a real terminal: fast keys, real pastes, and a draft that outlives a kill."""

import os
import signal
from pathlib import Path

import pytest

from tests.forking import Forking
from tests.terminal.terminal import running_signoff, terminal_environment
from tests.wire.server import WireServer

pytestmark = pytest.mark.timeout(120)

BIG = "\n".join(f"line {number}" for number in range(30))


def test_what_is_typed_and_pasted_in_one_go_is_sent_as_it_was(tmp_path: Path, processes: Forking) -> None:
    folder = tmp_path / "workspace"
    folder.mkdir()
    huge = "\n".join(f"row {number} {'x' * 90}" for number in range(20_000))
    with WireServer() as server:
        server.say("Seen.")
        environment = terminal_environment(
            tmp_path / "home", OPENAI_BASE_URL=server.base_url, OPENAI_API_KEY="k", SIGNOFF_MODEL="m"
        )
        with running_signoff(processes, ".", folder=folder, environment=environment) as terminal:
            terminal.wait_for("model may act")
            # Line ends within a paste come as carriage returns.
            terminal.type("one\ntwox\x7f \x1b[200~" + huge.replace("\n", "\r") + "\x1b[201~ end")
            terminal.wait_for("[pasted 20,000 lines] end")
            terminal.type("!\rnext")
            terminal.wait_for("Seen.", "❯ next")
        assert server.last.messages[-1] == {"role": "user", "content": f"one\ntwo {huge} end!"}


def test_a_draft_outlives_a_kill_folded_as_it_was(tmp_path: Path, processes: Forking) -> None:
    folder = tmp_path / "workspace"
    folder.mkdir()
    with WireServer() as server:
        server.say("Hello yourself.")
        server.say("Thank you.")
        environment = terminal_environment(
            tmp_path / "home", OPENAI_BASE_URL=server.base_url, OPENAI_API_KEY="k", SIGNOFF_MODEL="m"
        )
        with running_signoff(processes, ".", folder=folder, environment=environment) as terminal:
            terminal.wait_for("model may act")
            terminal.type("hello\r")
            terminal.wait_for("Hello yourself.")
            terminal.type("look at \x1b[200~" + BIG.replace("\n", "\r") + "\x1b[201~ and say")
            terminal.wait_for("[pasted 30 lines] and say")
            terminal.settle(1.0)
            os.kill(terminal.pid, signal.SIGKILL)
            terminal.wait_for_exit()
        with running_signoff(processes, ".", "--continue", folder=folder, environment=environment) as terminal:
            terminal.wait_for("Hello yourself.", "❯ look at [pasted 30 lines] and say")
            terminal.type(" why\r")
            terminal.wait_for("Thank you.")
        assert server.last.messages[-1] == {"role": "user", "content": f"look at {BIG} and say why"}
