"""The model behind the proxy: it does what the prompts of the live tests ask for, and never calls under "none"."""

from app.llm.endpoint_doctor import CALL_IT, SAY_IT, WORD
from tests.live import prompts
from tests.wire.replies import STALL, Call, Reply, Turn
from tests.wire.server import Request, rendered


def play(request: Request) -> Turn | Reply:
    """What the model answers to a request."""
    said = request.said
    if any(SAY_IT in text for _, text in said):
        return Turn(f"{WORD.title()}.")
    role, last = next((role, text) for role, text in reversed(said) if role != "system")
    may_call = not request.closing and bool(request.body.get("tools"))
    if role == "tool" or not may_call:
        return Turn("Please have a look.")
    if CALL_IT in last:
        return Turn(calls=(Call("report", {"word": "ok"}),))
    if prompts.EDIT in last:
        edits = [{"old": "'Hello '", "new": "'Hi '"}]
        return Turn("Editing.", (Call("edit_file", {"path": "greet.py", "edits": edits}),))
    if prompts.ASK in last:
        return Turn(calls=(Call("ask_user", {"question": "Which language?"}),))
    if prompts.LONG in last:
        return _endless(request)
    return Turn("ok")


def _endless(request: Request) -> Reply:
    """Some text, and then silence until the client leaves."""
    whole = rendered(Turn("one, two, three, four", pieces=2), request)
    begun = next(at for at, part in enumerate(whole.parts) if isinstance(part, bytes) and b"one," in part)
    return Reply((*whole.parts[: begun + 1], STALL), content_type=whole.content_type)
