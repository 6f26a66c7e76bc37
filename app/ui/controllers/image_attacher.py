"""Attach the images that the user names, in the chat and in the review alike."""

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
    """Finds named images, asks about doubtful ones, and stores their bytes."""

    def __init__(self, session: CurrentSession, app_context: AppContext) -> None:
        """`means` are the app's."""
        self._session = session
        self._app_context = app_context

    async def find_images(
        self, mentions: "Sequence[Mention]", undone: str = "Nothing was sent"
    ) -> "tuple[Image, ...]":
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

        session = self._session.current
        wire = session.ports.model.profile.wire if session is not None else ""
        try:
            return await load_attachments(self._session.open_session.runtime, mentions, wire, self._is_meant)
        except NotAttached as error:
            raise NotAttached(f"{error} {undone}: without the @ a file is only named.") from error

    async def _is_meant(self, candidate: "Candidate") -> bool:
        from app.ui.screens.dialog import AskScreen

        name = escape_unsafe(candidate.path, keep="")
        question = f"{name} would go to the model as an image, but {candidate.doubt}."
        send = await self._app_context.push_screen(
            AskScreen("Send this image to the model?", question, "send it", "only name it")
        )
        return send is True

    async def dropped_images(self, text: str) -> "Sequence[Mention]":
        """Return the images of which a pasted text consists."""
        from app.runtime.attachments import pasted_images

        if not self._session.ready.is_set():
            return ()
        return await pasted_images(self._session.open_session.runtime, text)
