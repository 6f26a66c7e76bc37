"""signoff in a terminal with a model that answers at once, and what it has staged."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.forking import Forking
from tests.terminal.terminal import Terminal, endpoint_environment, running_signoff, terminal_environment
from tests.wire.bench import FILE, edit
from tests.wire.server import WireServer

OLD, NEW = "def greet(name)", "def greet(whom)"
"""A line of the file before and after."""


@contextmanager
def opened(
    processes: Forking,
    folder: Path,
    *arguments: str,
    size: tuple[int, int] = (120, 40),
    variables: Mapping[str, str] | None = None,
) -> Iterator[Terminal]:
    """An empty session in a workspace below `folder`; its model proposes to rename a parameter, whatever is said."""
    (root := folder / "workspace").mkdir()
    (root / "greet.py").write_text(FILE)
    with WireServer() as server:
        server.turn(calls=[edit(OLD, NEW)])
        server.say("Renamed.")
        environment = terminal_environment(folder / "home", **endpoint_environment(server), **(variables or {}))
        with running_signoff(
            processes, ".", *arguments, folder=root, environment=environment, columns=size[0], rows=size[1]
        ) as terminal:
            terminal.wait_for("model may act")
            yield terminal


def stage(terminal: Terminal, after: str = "") -> None:
    """A turn that stages the proposal; what follows on the message comes in one piece with it, so before its end."""
    terminal.type(f"rename it\r{after}")
    terminal.wait_for("model must wait", "Renamed.", "1 tool call", without=["Esc interrupts"])
