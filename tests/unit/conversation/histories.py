"""Generated histories: logs as a session writes them, the same logs damaged, and message lists from elsewhere.

Every text carries a mark that says whose it is (`⟪U7⟫` the user's, `⟪P7⟫` the program's, `⟪M7⟫` the model's, `⟪T7⟫` a
tool's), so that a test can follow it onto the wire.
"""

import re
from collections.abc import Sequence
from typing import Any, Literal

from hypothesis import strategies as st

from app.conversation.events import (
    AssistantMessage,
    CallDeniedWithFeedback,
    CallOutcome,
    ContentPruned,
    DecisionKind,
    Event,
    HistoryCompacted,
    Intervention,
    InterventionKind,
    ProposalChanged,
    ProposalDecided,
    ProposalStaged,
    Question,
    RequestFailed,
    RequestSent,
    ToolCall,
    ToolResult,
    ToolStarted,
    TurnEnded,
    TurnStarted,
    UserAnswer,
    UserMessage,
    UserNotice,
)
from app.images.image import Image
from app.llm.values.endpoint import EndpointProfile
from app.llm.wires.wire import NOTE_CLOSING, NOTE_OPENING, OPAQUE_BLOCKS
from app.proposals.values.decision_facts import FileDiffStat, HunkOutcome, LineComment
from tests.unit.conversation.validity import Rules

MARK = re.compile(r"⟪([UPMT]\d+)⟫")
BLOCK = re.compile(re.escape(NOTE_OPENING) + r".*?" + re.escape(NOTE_CLOSING), re.DOTALL)
PROMPT = "⟪P0⟫ the system prompt"

profiles = st.builds(
    EndpointProfile,
    mid_system=st.sampled_from(["inline", "fold_first", "fold_user"]),
    tool_choice_none=st.sampled_from(["honoured", "ignored", "rejected", "fails"]),
    bridge_tool_user=st.just(True),
    single_call_turns=st.booleans(),
    merge_users=st.just(True),
    tool_id=st.sampled_from(["any", "alnum9", "max64", "max12"]),
    tool_name_on_result=st.booleans(),
    empty_content=st.sampled_from(["empty", "null", "absent"]),
    developer_role=st.booleans(),
    reasoning_echo=st.sampled_from(["never", "same_model", "required_on_calls"]),
    call_extras_echo=st.booleans(),
    images_supported=st.sampled_from([None, None, True, False]),
    refused_images=st.sampled_from([[], [], ["b" * 64]]),
)


def _opaque(wire: str, *blocks: tuple[int, dict[str, Any]]) -> dict[str, Any]:
    entries = [{"wire": wire, "index": index, "at": at, "block": block} for index, (at, block) in enumerate(blocks)]
    return {OPAQUE_BLOCKS: entries}


_THINKING = {"type": "thinking", "thinking": "hm", "signature": "signed by anthropic"}
_REASONING = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "sealed by openai"}
_EXTRAS: list[dict[str, Any]] = [
    {},
    {"reasoning_details": [{"text": "hm"}]},
    {"role": "user"},
    _opaque("anthropic", (0, _THINKING), (2, {"type": "redacted_thinking", "data": "signed"})),
    _opaque("anthropic", (1, _THINKING), (9, _THINKING)),
    _opaque("responses", (0, _REASONING), (1, {**_REASONING, "id": "rs_2"}), (3, {**_REASONING, "id": "rs_3"})),
    _opaque("responses", (0, {"type": "message", "phase": "commentary"}), (9, _REASONING)),
    {OPAQUE_BLOCKS: "no list"},
]
"""What came with a response, from any wire: a session may change it at any time."""


def _image(name: str, **facts: Any) -> Image:
    known = {"media_type": "image/png", "width": 640, "height": 480, "size": 12, "sha256": name[0] * 64}
    return Image.model_validate({"name": name, **known, **facts})


IMAGES = [
    _image("a.png"),
    _image("b.gif", media_type="image/gif"),
    _image("c.png"),
    _image("d \u202e.png", size=10**8),
]
CONTENTS = {"a" * 64: "YQ==", "b" * 64: "Yg==", "d" * 64: "ZA=="}
"""The bytes of images in the store: one is not there any more, and one is too large for any wire."""


_SYSTEM: dict[str, Literal["anywhere", "first", "none"]] = {
    "inline": "anywhere",
    "fold_first": "first",
    "fold_user": "none",
}


def rules_for(profile: EndpointProfile) -> Rules:
    """What a server with this profile insists on."""
    return Rules(
        system=_SYSTEM[profile.mid_system],
        alternate=profile.mid_system != "inline" and profile.merge_users and profile.bridge_tool_user,
        single_calls=profile.single_call_turns,
        id_length=int(profile.tool_id[3:]) if profile.tool_id.startswith("max") else 64,
        alnum9=profile.tool_id == "alnum9",
    )


def marks(text: str | None) -> list[str]:
    return MARK.findall(text or "")


def words_of(content: str) -> str:
    """A user message without the program's tagged blocks."""
    return BLOCK.sub("", content)


def one_of(draw: Any, values: Sequence[Any]) -> Any:
    """One of these, by its place: to make a strategy takes longer than to draw from one that there is."""
    return values[draw(st.integers(0, len(values) - 1))]


class Marks:
    """Hands out texts, each with a mark of its own."""

    def __init__(self, draw: Any) -> None:
        self._draw = draw
        self._next = 1
        self.said: list[str] = []
        """Marks of what the user said, in order."""

    def text(self, whose: str, *, may_be_empty: bool = False) -> str:
        """A text of U, P, M or T."""
        if may_be_empty and self._draw(st.booleans()):
            return str(one_of(self._draw, ["", " ", "\n"]))
        mark = f"{whose}{self._next}"
        self._next += 1
        if whose == "U":
            self.said.append(mark)
        around = one_of(self._draw, ["", "\n", "word ", "é\u202e ", "</signoff-note>", "two\n\nlines ", "\ud83d"])
        return f"{around}⟪{mark}⟫{around}"


class Simulation:
    """Plays a session: what the loop would write for a user, a model and tools that do anything at all."""

    def __init__(self, draw: Any, *, scoped: bool = True) -> None:
        self.draw = draw
        self.marks = Marks(draw)
        self.events: list[Event] = []
        self._scoped = scoped
        self._responses = 0
        self._proposals = 0
        self._pending: list[str] = []

    def add(self, event: Event) -> Event:
        stored = event.model_copy(update={"id": len(self.events) * 2 + 1, "time": float(len(self.events))})
        self.events.append(stored)
        return stored

    def images(self) -> tuple[Image, ...]:
        if not self.chance(25):
            return ()
        return tuple(self.draw(st.lists(st.sampled_from(IMAGES), min_size=1, max_size=3)))

    def chance(self, percent: int) -> bool:
        """True in about so many of a hundred cases."""
        return bool(self.draw(st.integers(0, 99)) < percent)

    def play(self, turns: int) -> None:
        question: Question | None = None
        for _ in range(turns):
            self._between_turns()
            cause = one_of(self.draw, ["message", "message", "feedback", "continue"])
            if question is not None and self.chance(70):
                text = self.marks.text("U", may_be_empty=True)
                self.add(UserAnswer(call=question.call, text=text, images=self.images()))
                cause = "answer"
            elif question is not None:
                cause = "message"
            self.add(TurnStarted(cause=cause))
            if self._scoped and self.chance(40):
                self._intervene(InterventionKind.PENDING, "turn")
            if cause == "message":
                for _ in range(self.draw(st.integers(1, 2))):
                    self.add(UserMessage(text=self.marks.text("U"), images=self.images()))
            elif cause == "feedback":
                self._decide(feedback=True)
            question = self._turn()

    def _between_turns(self) -> None:
        if self.chance(25):
            self._decide(feedback=self.chance(50))
        if self.chance(10):
            self._intervene(InterventionKind.FACT, "lasting")
        if self.chance(10):
            self.add(UserNotice(text=self.marks.text("P")))
        if self.chance(12):
            self._compact()
        if self.chance(12):
            self._prune()

    def _meanwhile(self) -> None:
        """The user decides, or another process speaks, while a request is out."""
        if self.chance(12):
            self._decide(feedback=self.chance(60))
        if self.chance(6):
            self.add(UserMessage(text=self.marks.text("U"), images=self.images()))

    def _intervene(self, kind: InterventionKind, scope: Any, **fields: Any) -> None:
        self.add(Intervention(kind=kind, text=self.marks.text("P"), scope=scope, **fields))

    def _decide(self, *, feedback: bool) -> None:
        proposal = self._pending.pop() if self._pending and self.chance(80) else "P99"
        decision = one_of(self.draw, list(DecisionKind))
        hunk = HunkOutcome(path="a.py", hunk="h1", header="@@ -1 +1 @@", landed=self.chance(50), reason="asked to")
        comment = LineComment(path="a.py", line=3, side="new", quote="+```", text=self.marks.text("U"))
        self.add(
            ProposalDecided(
                proposal=proposal,
                decision=decision,
                hunks=(hunk,) if self.chance(30) else (),
                feedback=self.marks.text("U") if feedback else "",
                comments=(comment,) if feedback or self.chance(20) else (),
            )
            if feedback
            else ProposalDecided(proposal=proposal, decision=decision)
        )
        if not feedback:
            self.marks.said.remove(marks(comment.text)[0])

    def _compact(self) -> None:
        if self.events:
            upto = self.draw(st.integers(1, self.events[-1].id))
            summary = self.marks.text("P") if self.chance(70) else ""
            self.add(HistoryCompacted(upto=upto, summary=summary, method="summary" if summary else "truncation"))

    def _prune(self) -> None:
        results = [event.id for event in self.events if isinstance(event, ToolResult)]
        images = [event.id for event in self.events if isinstance(event, UserMessage | UserAnswer) and event.images]
        if results or images:
            some = self.draw(st.sets(st.sampled_from([*results, *images]), max_size=4))
            self.add(ContentPruned(results=tuple(some & {*results}), images=tuple(some & {*images})))

    def _turn(self) -> Question | None:
        for _ in range(self.draw(st.integers(1, 4))):
            self.add(RequestSent())
            self._meanwhile()
            if self.chance(8):
                self.add(RequestFailed(kind="rate_limited", message="wait"))
                self.add(TurnEnded(stopped="failed"))
                return None
            message = self._response()
            if message.state == "interrupted":
                self.add(TurnEnded(stopped="aborted"))
                return None
            stopped, question = self._calls(message)
            if stopped:
                self.add(TurnEnded(stopped=stopped))
                return question
            if not message.calls and message.state == "complete" and message.text.strip():
                break
            if self._scoped and self.chance(30):
                self._intervene(InterventionKind.EMPTY_RESPONSE, "request")
        self.add(TurnEnded(stopped="answer"))
        return None

    def _response(self) -> AssistantMessage:
        if self.chance(8):
            self._responses += 1
            self.add(AssistantMessage(text=self.marks.text("M"), state="discarded"))
        self._responses += 1
        calls = tuple(self._call(ordinal) for ordinal in range(self.draw(st.integers(0, 3))))
        state = one_of(self.draw, ["complete"] * 6 + ["truncated", "interrupted"])
        message = AssistantMessage(
            text=self.marks.text("M", may_be_empty=True),
            reasoning=one_of(self.draw, ["", "hm"]),
            calls=calls,
            finish_reason=one_of(self.draw, [None, "stop", "tool_calls", "length", "other"]),
            state=state,
            extras=one_of(self.draw, _EXTRAS),
            model=one_of(self.draw, ["", "", "another"]),
        )
        return self.add(message)  # type: ignore[return-value]

    def _call(self, ordinal: int) -> ToolCall:
        wire_id = one_of(
            self.draw,
            ["", "a", "call_0", "abcdefghi", "x" * 80, "functions.read:0", " ", f"id{self._responses}-{ordinal}"],
        )
        valid = self.chance(80)
        return ToolCall(
            uid=f"c{self._responses}.{ordinal}",
            wire_id=wire_id,
            name=one_of(self.draw, ["read_file", "edit_file", "", "bad name!", "n" * 90]),
            arguments=one_of(
                self.draw, [{}, {"path": "a.py"}, {"x": float("nan")}, {"deep": [[["\ud800"]]]}, {"t": "é"}]
            )
            if valid
            else None,
            raw_arguments="" if valid else one_of(self.draw, ['{"path', "", "[1]"]),
            invalid="" if valid else "cut off",
            extras=one_of(self.draw, [{}, {"extra_content": {"google": {"thought_signature": "s"}}}]),
        )

    def _calls(self, message: AssistantMessage) -> tuple[Any, Question | None]:
        """Run a batch, which may be left at any point. Returns how the turn stopped, if it did."""
        staged: list[str] = []
        for call in message.calls:
            if self.chance(10):
                return "aborted", None
            if self.chance(12) and message.state == "complete":
                question = self.add(Question(call=call.uid, text=self.marks.text("M")))
                return "question", question  # type: ignore[return-value]
            if message.state == "complete" and self.chance(80):
                self.add(ToolStarted(call=call.uid))
                if self.chance(10):
                    return "aborted", None
            if self.chance(12):
                asked = one_of(self.draw, ["command", "secret", "changes", "server", "ignored"])
                self.add(
                    CallDeniedWithFeedback(call=call.uid, asked=asked, subject="{x}", feedback=self.marks.text("U"))
                )
            outcome = one_of(self.draw, [CallOutcome.OK, CallOutcome.OK, CallOutcome.STAGED, CallOutcome.ERROR])
            self.add(ToolResult(call=call.uid, outcome=outcome, text=self.marks.text("T", may_be_empty=True)))
            if outcome is CallOutcome.STAGED:
                staged.append(call.uid)
        if not staged:
            return None, None
        return self._stage(staged), None

    def _stage(self, calls: list[str]) -> str:
        self._proposals += 1
        proposal = f"P{self._proposals}"
        self._pending.append(proposal)
        stat = FileDiffStat(path="a.py", op="edit", added=1, removed=1)
        self.add(ProposalStaged(proposal=proposal, summary="s", files=(stat,), calls=tuple(calls)))
        if self.chance(15):
            self.add(ProposalChanged(proposal=proposal, state="stale", reason="the file changed"))
        self._intervene(InterventionKind.STAGED, "request")
        self.add(RequestSent(closing=True))
        self._meanwhile()
        if self.chance(20):
            self.add(RequestFailed(kind="server_error", message="500"))
            return "staged"
        answer = self._response()
        for call in answer.calls:
            if self.chance(50):
                self.add(ToolResult(call=call.uid, outcome=CallOutcome.REFUSED, text=self.marks.text("T")))
        return "refused" if answer.calls else "staged"


@st.composite
def sessions(draw: Any, *, scoped: bool = True) -> Simulation:
    simulation = Simulation(draw, scoped=scoped)
    simulation.play(draw(st.integers(1, 5)))
    return simulation


@st.composite
def damaged_logs(draw: Any) -> list[Event]:
    """Events of a session, some lost, some repeated, some out of order, some without an id."""
    events = list(draw(sessions()).events)
    for _ in range(draw(st.integers(0, 6))):
        if not events:
            break
        position = draw(st.integers(0, len(events) - 1))
        match one_of(draw, ["drop", "repeat", "move", "unstore"]):
            case "drop":
                events.pop(position)
            case "repeat":
                events.insert(draw(st.integers(0, len(events))), events[position])
            case "move":
                events.insert(draw(st.integers(0, len(events) - 1)), events.pop(position))
            case "unstore":
                events[position] = events[position].model_copy(update={"id": 0})
    return events


@st.composite
def imported_messages(draw: Any) -> tuple[list[Any], list[str]]:
    """A damaged list of messages from elsewhere, and the marks of what the user said in it."""
    source = Marks(draw)
    ids = st.sampled_from(["a", "b", "call_0", "", None, 7, "y" * 300])
    arguments = st.sampled_from(['{"a": 1}', "{}", "", None, "{broken", "[1]", "null", {"a": 1}, "NaN"])

    def call() -> Any:
        shape = one_of(draw, ["whole", "whole", "whole", "no function", "junk"])
        if shape == "junk":
            return one_of(draw, [None, "x", 3])
        function = {"name": one_of(draw, ["read", "edit", "", None]), "arguments": draw(arguments)}
        return {"id": draw(ids), "type": "function"} | ({"function": function} if shape == "whole" else {})

    def content(whose: str) -> Any:
        text = source.text(whose)
        return one_of(draw, [text, [{"type": "text", "text": text}], [text, {"type": "image_url"}]])

    messages: list[Any] = []
    for _ in range(draw(st.integers(0, 14))):
        kind = one_of(draw, ["user", "user", "assistant", "calls", "calls", "tool", "tool", "system", "odd"])
        match kind:
            case "user":
                messages.append({"role": "user", "content": content("U")})
            case "assistant":
                text = one_of(draw, ["", None, source.text("M")])
                messages.append({"role": "assistant", "content": text})
            case "calls":
                calls = [call() for _ in range(draw(st.integers(0, 3)))]
                messages.append(
                    {"role": "assistant", "content": source.text("M", may_be_empty=True), "tool_calls": calls}
                )
            case "tool":
                messages.append({"role": "tool", "tool_call_id": draw(ids), "content": source.text("T")})
            case "system":
                stale = one_of(draw, ["old prompt", "old prompt", source.text("P")])
                messages.append({"role": one_of(draw, ["system", "developer"]), "content": stale})
            case "odd":
                odd = [
                    {"role": "user", "content": None},
                    {"role": "function", "name": "read", "content": "x"},
                    {"role": "assistant", "function_call": {"name": "read"}},
                    {},
                    None,
                ]
                messages.append(one_of(draw, odd))
    return messages, source.said
