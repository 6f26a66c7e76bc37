"""Keys over a link that holds bytes back and joins them, against the real app with a proposal waiting.

What must come of a sequence is computed from the sequence: what is typed while the chat has the focus arrives in the
model's next request, whole and in order; in the review a key can decide only if
it did not come in one piece with the key that led there, nor with another character: what the app cannot have painted
decides nothing.
"""

import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.runtime.open_workspace import OpenWorkspace, open_workspace
from tests.forking import Forking
from tests.terminal.terminal import KEYS, Terminal, endpoint_environment, running_signoff, terminal_environment
from tests.wire.bench import FILE, edit
from tests.wire.replies import Call, Turn
from tests.wire.server import Request, WireServer

LONGEST_HOLD = 0.3
"""Seconds for which the link holds bytes back, at most."""
TYPING = 0.08
"""Seconds between two keys, at most."""
FOCUS = {"f2": "chat", "f3": "review", "f4": "review"}
MOVES = "jkgG[]zw"
STRAY = "qp1"
DECISIONS = "yynxYNuU"
WORDS = ("yes", "no", "any", "undo", "try Y", "exec", "fgjk", "nearly", "u", "re cut")


def scripted(request: Request) -> Turn:
    """Stages an edit where the user asks for it, and only says something else."""
    last = request.messages[-1]
    if last["role"] == "user" and str(last["content"]).startswith("stage"):
        return Turn(calls=(Call(*edit()),))
    return Turn("Heard.")


def sequence(chance: random.Random) -> list[str]:
    """Keys as a hasty person types them: to and fro between panes, with words, moves and decisions."""
    keys: list[str] = []
    for _ in range(chance.randint(2, 5)):
        pane = chance.choice(["f2", "f2", "f3", "f4"])
        keys.append(pane)
        if FOCUS[pane] == "chat":
            keys.extend(chance.choice(WORDS))
        else:
            keys.extend(chance.choice(MOVES + STRAY) for _ in range(chance.randint(0, 3)))
            if chance.random() < 0.4:
                keys.append(chance.choice(DECISIONS))
    return keys


def parcels(keys: list[str], chance: random.Random) -> Iterator[tuple[float, list[str]]]:
    """What the link hands over at once, and how long after the parcel before."""
    typed = handed = 0.0
    parcel: list[str] = []
    leaves = chance.uniform(0, LONGEST_HOLD)
    for key in keys:
        typed += chance.uniform(0, TYPING)
        if typed > leaves:
            if parcel:
                yield leaves - handed, parcel
                handed, parcel = leaves, []
            leaves = typed + chance.uniform(0, LONGEST_HOLD)
        parcel.append(key)
    yield leaves - handed, parcel


def stand_alone(parcel: list[str]) -> list[bool]:
    """For each key, whether none of those beside it in the parcel is a character."""
    texts = [False, *(key not in FOCUS for key in parcel), False]
    return [not before and not after for before, after in zip(texts, texts[2:], strict=False)]


class User:
    """Types sequences, and knows what must come of them."""

    def __init__(self, terminal: Terminal, runtime: OpenWorkspace, server: WireServer, chance: random.Random) -> None:
        self.terminal, self.runtime, self.server, self.chance = terminal, runtime, server, chance
        self.file = runtime.workspace.root / "greet.py"
        self.pane = "chat"

    def said(self) -> list[str]:
        """The user's messages that have reached the model."""
        if not self.server.requests:
            return []
        return [str(one["content"]) for one in self.server.last.messages if one["role"] == "user"]

    def send(self, text: str) -> None:
        self.terminal.type(text + "\r")
        self.terminal.wait_until(lambda: text in self.said(), f"{text!r} to be sent")

    def stage(self, name: str) -> None:
        self.file.write_text(FILE)
        self.send(f"stage {name}")
        self.terminal.wait_until(self.waits, "a proposal")
        self.terminal.settle()

    def waits(self) -> bool:
        return any(one.state.is_pending for one in self.runtime.service.all())

    def play(self, keys: list[str], end: str) -> None:
        """Type the keys over the link, and end with F2, a word and Enter."""
        may_decide, decided, parts = False, False, list[list[str]]()
        # An earlier sequence may have written one proposal where another waits still.
        before = self.file.read_text()
        # If no key follows a decision, the focus goes back to the composer after it, at some time: so what is typed
        # next may go here or there. Each text that may be written, and whether the focus has gone back.
        written = {("", False)}
        for wait, parcel in parcels([*keys, "f2", *end, "enter"], self.chance):
            parts.append(parcel)
            until = time.monotonic() + wait
            while (rest := until - time.monotonic()) > 0:
                self.terminal.settle(rest)
            in_sight = self.pane == "review"
            for key, alone in zip(parcel, stand_alone(parcel), strict=True):
                if key in FOCUS:
                    in_sight &= FOCUS[key] == "review"
                    self.pane = FOCUS[key]
                    decided = False
                    written = {(text, False) for text, _ in written}
                elif self.pane == "chat":
                    written = {(text + ("" if key == "enter" else key), False) for text, _ in written}
                else:
                    if decided:
                        written |= {(text, True) for text, _ in written}
                    written = {(text + key * back, back) for text, back in written}
                    decided = in_sight and alone and key in DECISIONS
                    may_decide |= decided
            self.terminal.type("".join(KEYS.get(key, key) for key in parcel))
        end = end.strip()
        self.terminal.wait_until(lambda: any(one.endswith(end) for one in self.said()), f"{end!r} to be sent")
        said = next(one for one in self.said() if one.endswith(end))
        assert said in {text.strip() for text, _ in written}, parts
        if not may_decide:
            assert self.file.read_text() == before and self.waits(), f"decided unseen: {parts}\n{self.terminal.text}"


@pytest.mark.parametrize(
    ("count", "seed"),
    [
        pytest.param(6, 1, id="some", marks=pytest.mark.timeout(120)),
        pytest.param(500, 2, id="500", marks=[pytest.mark.marathon, pytest.mark.timeout(7200)]),
    ],
)
@pytest.mark.parametrize(
    ("columns", "rows"), [pytest.param(120, 40, id="wide"), pytest.param(60, 20, id="narrow", marks=pytest.mark.soak)]
)
def test_no_key_is_lost_nor_out_of_order_and_none_decides_unseen(
    tmp_path: Path,
    count: int,
    seed: int,
    columns: int,
    rows: int,
    processes: Forking,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folder = tmp_path / "workspace"
    folder.mkdir()
    (folder / "greet.py").write_text(FILE)
    monkeypatch.setenv("SIGNOFF_HOME", str(tmp_path / "home"))
    with WireServer() as server:
        server.model(scripted)
        environment = terminal_environment(tmp_path / "home", **endpoint_environment(server))
        with running_signoff(
            processes, ".", folder=folder, environment=environment, columns=columns, rows=rows
        ) as terminal:
            runtime = open_workspace(folder, {}, {})
            try:
                user = User(terminal, runtime, server, random.Random(f"{seed} {columns}"))
                # From the first picture on: what is typed while the app starts is kept, too.
                terminal.wait_for("Ask for a change")
                for number in range(count // 2):
                    if not user.waits():
                        user.stage(f"for {number}")
                    user.play(sequence(user.chance), f" end {number}")
                    terminal.settle(0.2)
            finally:
                runtime.close()
