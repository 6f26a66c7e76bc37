"""The whole app over the tests' server: the real store, service, loop and client behind a headless screen."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

from textual.pilot import Pilot
from textual.widgets import TextArea

from app.conversation.events import TurnEnded
from app.proposals.values.models import Proposal
from app.runtime.open_workspace import OpenWorkspace, open_workspace
from app.ui.app import SignoffApp
from app.ui.startup import WorkspaceWithOptions
from tests.ui.screen_text import screen_text
from tests.waiting import until
from tests.wire.bench import FILE
from tests.wire.server import WireServer

_NO_FRAMES = str.maketrans("│▏▌", "   ")


class Running:
    def __init__(self, app: SignoffApp, runtime: OpenWorkspace, pilot: Pilot[None]) -> None:
        self.app = app
        self.runtime = runtime
        self.pilot = pilot

    @property
    def file(self) -> str:
        return (self.runtime.workspace.root / "greet.py").read_text()

    @property
    def text(self) -> str:
        return screen_text(self.app)

    @property
    def proposals(self) -> list[Proposal]:
        return self.runtime.service.all()

    @property
    def turns(self) -> int:
        return sum(isinstance(event, TurnEnded) for event in self.app.require_session().log.events)

    @property
    def reviewed(self) -> bool:
        """Whether the review is there: it comes when something waits in it, or one goes there."""
        return self.app.controllers.review is not None

    async def until(self, condition: Callable[[], Any], what: str = "the condition") -> None:
        """Wait for something to become true, and until what made it so is dealt with."""
        if not condition():
            await until(condition, lambda: f"{self.text}\n{what}")
            await self.painted()

    async def painted(self) -> None:
        """Wait until all that has happened is on the screen."""
        await self.pilot.pause(0)

    async def see(self, *texts: str) -> None:
        await self.until(lambda: all(text in self.text for text in texts), f"{texts} on the screen")

    async def write(self, text: str) -> None:
        names = {" ": "space", "/": "slash", "\n": "ctrl+j"}
        await self.pilot.press(*(names.get(character, character) for character in text))

    async def submit(self, text: str) -> None:
        """Send a text from the composer, wherever the focus is."""
        if not self.app.workbench.is_in_composer:
            await self.pilot.press("f2")
        self.app.workbench.composer.draft = text
        await self.pilot.press("enter")

    async def say(self, text: str) -> None:
        """Send a message, and wait until control is back."""
        before = self.turns
        await self.submit(text)
        await self.until(lambda: self.turns > before, "the end of the turn")
        await self.settled()

    async def command(self, line: str, then: str = "") -> None:
        """Enter a slash command, and wait for the screen that it opens."""
        await self.submit(f"/{line}")
        await self.pilot.pause()
        if then:
            await self.screen(then)

    async def settled(self) -> None:
        """Wait until control is with the user, what waits can be reviewed and the screen is quiet."""
        await self.until(lambda: not self.app.require_session().is_busy, "the end of the turn")
        await self.until(lambda: self.reviewed or not self.app.workbench.waiting, "the review")
        await self.painted()

    async def review(self, *keys: str) -> None:
        """Go to the approvals, let the grace period pass, and press keys there."""
        await self.pilot.press("f4")
        await self.ready_to_decide(*keys)

    async def ready_to_decide(self, *keys: str) -> None:
        """Press keys once a key in the review counts, and nothing on its way would begin a grace period anew."""
        # What is painted meanwhile may begin it anew.
        while not (self._shows_latest() and self.can_decide()):
            await self.until(lambda: self._shows_latest() and self.can_decide(), "the diff")
        if keys:
            await self.pilot.press(*keys)

    def _shows_latest(self) -> bool:
        """Whether the review shows its proposal as it is stored: what was decided reaches the screen later."""
        shown = self.app.workbench.review.state.proposal if self.reviewed else None
        return shown is None or self.runtime.service.get(shown.id) == shown

    async def write_feedback(self, text: str, *keys: str) -> None:
        """Open the field for feedback, write into it, and press keys there."""
        await self.pilot.press("r")
        field = self.app.workbench.review.feedback_field
        await self.until(lambda: field.is_open, "the field")
        field.query_one(TextArea).insert(text)
        await self.painted()
        if keys:
            await self.pilot.press(*keys)

    def can_decide(self) -> bool:
        """Whether a key in the review counts now."""
        if not self.reviewed:
            return False
        review = self.app.workbench.review
        something = bool(review.preview.diffs) or review.state.permission_request is not None
        return (
            something
            and review.readiness.grace_period.is_over
            and review.readiness.focus_clock.was_on_screen_at(time.monotonic())
        )

    @contextlib.contextmanager
    def without(self, table: str) -> Iterator[None]:
        """Have the store fail as often as it comes to a table, as a database does that is broken."""
        with self.runtime.database.transaction() as connection:
            connection.execute(f"ALTER TABLE {table} RENAME TO broken")
        try:
            yield
        finally:
            with self.runtime.database.transaction() as connection:
                connection.execute(f"ALTER TABLE broken RENAME TO {table}")

    async def notified(self, text: str) -> None:
        """Wait until a notification says this, however it is broken into lines."""
        await self.until(lambda: any(text in one.message for one in self.app._notifications), text)

    async def told(self, text: str) -> None:
        """Wait until the screen in front says this: in its frame, its preview, or lines that are parted anywhere."""
        await self.until(lambda: text in self._told, text)

    @property
    def _told(self) -> str:
        screen = self.app.screen
        frame = "".join(str(dialog.border_subtitle) for dialog in screen.query("#dialog"))
        preview = "".join(str(one.render()) for one in screen.query("#preview-text"))
        return " ".join(f"{self.text} {frame} {preview}".translate(_NO_FRAMES).split())

    async def screen(self, name: str, *keys: str) -> None:
        """Press keys, and wait until a screen of that class is in front and painted: a key before answers nothing."""
        if keys:
            await self.pilot.press(*keys)
        await self.until(lambda: type(self.app.screen).__name__ == name, name)
        painted = asyncio.Event()
        self.app.screen.call_after_refresh(painted.set)
        await self.until(painted.is_set, f"the picture of {name}")


@contextlib.asynccontextmanager
async def running(
    folder: Path,
    server: WireServer | None = None,
    *,
    size: tuple[int, int] = (120, 40),
    resume: bool = False,
    go_on: asyncio.Event | None = None,
    kind: type[SignoffApp] = SignoffApp,
    environment: dict[str, str] | None = None,
    **settings: Any,
) -> AsyncIterator[Running]:
    """Run the app in a workspace below `folder`; with a server it is connected, else nothing is set up.

    With `go_on`, it shows its first picture, and opens its workspace once the event is set.
    """
    root = folder / "workspace"
    if not root.exists():
        root.mkdir()
        (root / "greet.py").write_text(FILE)
    flags = {"base_url": server.base_url, "model": "test-model", "api_key": "key"} if server else {}
    runtime = open_workspace(root, {**flags, **settings}, environment or {})

    async def opener() -> WorkspaceWithOptions:
        if go_on:
            await go_on.wait()
        return WorkspaceWithOptions(runtime, runtime.settings, runtime.sessions.latest() if resume else None)

    app = kind(opener, runtime.dirs.log)
    try:
        async with app.run_test(size=size, notifications=True, tooltips=True) as pilot:
            run = Running(app, runtime, pilot)
            if server and not go_on:
                await run.until(lambda: app.current_session is not None, "the session")
                await run.painted()
            yield run
            await app.action_quit()
    finally:
        runtime.close()


async def stage(run: Running, server: WireServer, *edits: tuple[str, str]) -> None:
    """Have the model propose these replacements, and wait until they are shown."""
    pairs = [{"old": old, "new": new} for old, new in edits or (("'Hello '", "'Hi '"),)]
    server.call("edit_file", {"path": "greet.py", "edits": pairs})
    server.say("Have a look.")
    await run.say("change it")
    await run.see(run.proposals[-1].id)


@contextlib.asynccontextmanager
async def staged(folder: Path, server: WireServer, **options: Any) -> AsyncIterator[Running]:
    """Run the app as `running` does, with a proposal that waits."""
    async with running(folder, server, **options) as run:
        await stage(run, server)
        yield run
