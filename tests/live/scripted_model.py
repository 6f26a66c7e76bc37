"""The model behind the proxy: it follows the prompts of the live tests; with tool choice "none" it makes no calls."""

from app.llm.endpoint_doctor import CALL_IT, SAY_IT, WORD
from tests.live import prompts
from tests.wire.replies import STALL, Call, Reply, Turn
from tests.wire.server import Request, rendered


def play(request: Request) -> Turn | Reply:
    """Return the model's answer to a request."""
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
    """Return some text, then silence until the client disconnects."""
    reply = rendered(Turn("one, two, three, four", pieces=2), request)
    first_text = next(index for index, part in enumerate(reply.parts) if isinstance(part, bytes) and b"one," in part)
    return Reply((*reply.parts[: first_text + 1], STALL), content_type=reply.content_type)
