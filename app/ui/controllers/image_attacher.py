"""Attaches the images that the user names in what they write, in the chat and in the review alike.

Kept apart: a message and a decision have to treat them the same.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from app.text.safe_text import escape_unsafe
from app.ui.context.app_context import AppContext
from app.ui.context.current_session import CurrentSession

if TYPE_CHECKING:
    from app.images.image import Image
    from app.images.image_files import Candidate
    from app.images.mentions import Mention


class ImageAttacher:
    """Finds them, asks about those that may not be meant, and has their bytes stored."""

    def __init__(self, session: CurrentSession, means: AppContext) -> None:
        """`means` are the app's."""
        self._session = session
        self._means = means

    async def images(self, mentions: "Sequence[Mention]", undone: str = "Nothing was sent") -> "tuple[Image, ...]":
        """The images among the files that were named.

        Args:
            mentions: those files.
            undone: what did not happen where one of them cannot be sent, as a sentence without its end.

        Raises:
            NotAttached: one cannot be sent.
        """
        if not mentions:
            # To load what finds them would hold up the first message by several pictures.
            return ()
        from app.images.image_files import NotAttached
        from app.runtime.attachments import load_attachments

        session = self._session.now
        wire = session.ports.model.profile.wire if session is not None else ""
        try:
            return await load_attachments(self._session.open_session.runtime, mentions, wire, self._is_meant)
        except NotAttached as error:
            raise NotAttached(f"{error} {undone}: without the @ a file is only named.") from error

    async def _is_meant(self, candidate: "Candidate") -> bool:
        from app.ui.screens.dialog import AskScreen

        name = escape_unsafe(candidate.path, keep="")
        question = f"{name} would go to the model as an image, but {candidate.doubt}."
        send = await self._means.ask(AskScreen("Send this image to the model?", question, "send it", "only name it"))
        return send is True

    async def dropped(self, text: str) -> "Sequence[Mention]":
        """The images that a pasted text consists of."""
        from app.runtime.attachments import pasted_images

        if not self._session.ready.is_set():
            return ()
        return await pasted_images(self._session.open_session.runtime, text)
