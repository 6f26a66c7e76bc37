"""Commands of the user's own in the app: offered, listed and called like signoff's."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from app.images.mentions import Mention, mentions
from app.own_commands.catalogue import Catalogue
from app.own_commands.command import CommandUnusable
from app.ui.means import Means
from app.ui.slash_commands import COMMANDS, BadArgument

if TYPE_CHECKING:
    from app.conversation.events import Invocation
    from app.runtime.workspace import Runtime
    from app.ui.session import CurrentSession
    from widgets.chat.composer import Composer

Send = Callable[[str, "Invocation | None", tuple[Mention, ...]], Awaitable[None]]


class OwnCommands:
    """What there is of them, as of the last look at their files."""

    def __init__(
        self, runtime: "Runtime", composer: "Composer", session: "CurrentSession", means: Means, send: Send
    ) -> None:
        """Nothing is looked at yet.

        Args:
            runtime: the open workspace.
            composer: offers them.
            session: whom they speak to.
            means: of the app.
            send: sends a message that a command has made.
        """
        self._runtime = runtime
        self._composer = composer
        self._session = session
        self._means = means
        self._send = send
        self.known = Catalogue()
        """All of them."""

    async def look(self) -> Catalogue:
        """Look at the files anew, and offer what they have."""
        from app.runtime.own_commands import news_of_held, own_commands

        self.known = await asyncio.to_thread(own_commands, self._runtime, COMMANDS.keys())
        own = [(one.name, one.told) for one in self.known.commands.values()]
        built_in = [(name, action.help) for name, action in COMMANDS.items()]
        self._composer.set_commands(built_in + own, unlisted=self.known.held)
        if news := await asyncio.to_thread(news_of_held, self._runtime, self.known):
            self._means.tell(news)
        return self.known

    async def run(self, name: str, argument: str) -> None:
        """Call one; raises BadArgument where that cannot be."""
        from app.conversation.events import Notice
        from app.runtime.own_commands import message_of

        try:
            message = message_of(await self.look(), name, argument)
        except CommandUnusable as unusable:
            raise BadArgument(str(unusable)) from unusable
        if (session := self._session.now) is not None and session.question is not None:
            raise BadArgument("A question waits for your answer; answer it first.")
        await self._send(message.text, message.command, mentions(message.text))
        if message.notice:
            await self._session.get().note(Notice(text=message.notice))
