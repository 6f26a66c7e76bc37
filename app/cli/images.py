"""The images that a text on the command line names.

Kept apart: a prompt and the words of a denial have them alike.
"""

from app.cli.output import print_error
from app.images.attaching import Candidate, NotAttached
from app.images.image import Image
from app.images.mentions import mentions
from app.runtime.attachments import attached
from app.runtime.workspace import Runtime


async def named_images(runtime: Runtime, text: str, wire: str, without: str, hint: str = "") -> tuple[Image, ...]:
    """Those in the workspace; what cannot be attached is said in a line.

    Such a text may be made of anyone's: what it names is not always meant, and nothing outside is sent for it.

    Args:
        runtime: the open workspace.
        text: the prompt, or other words of the user's.
        wire: what the model speaks, empty if that is not known.
        without: what happens where one of them cannot be sent, as a sentence.
        hint: how to send one that is only named, as the end of a sentence.
    """

    async def is_meant(candidate: Candidate) -> bool:
        print_error(f"{candidate.path} is only named, since {candidate.doubt}{hint}.")
        return False

    try:
        return await attached(runtime, mentions(text), wire, is_meant)
    except NotAttached as error:
        print_error(f"{error} {without}")
        return ()
