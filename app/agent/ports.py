"""Ports of a session, implemented by the code that opens it."""

from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from app.agent.gate import GatePolicy
from app.agent.limits import SessionLimits
from app.agent.permission_requests import AllowedFormStore
from app.config.config_tables import PriceTable
from app.conversation.events import Event
from app.conversation.log import EventSink
from app.llm.values.endpoint import Profile
from app.llm.values.requests_and_updates import Endpoint, Payload, StreamUpdate
from app.proposals.proposal_service import ProposalService
from app.proposals.values.models import Proposal
from app.tools.tool_registry import ToolSet
from app.workspace.paths import Workspace

if TYPE_CHECKING:
    from app.proposals.stack.draft import Draft
    from app.sandbox.captured_changes import PendingFiles


class ModelPort(Protocol):
    """A client for one endpoint and model; implemented by `app.llm.client.ModelClient`."""

    endpoint: Endpoint

    @property
    def profile(self) -> Profile:
        """Return the endpoint's profile as far as it is known."""
        ...

    def stream(self, build: Callable[[Profile], Payload], *, closing: bool = False) -> AsyncGenerator[StreamUpdate]:
        """Send one request with the payload that `build` makes on a thread; raises `RequestError`."""
        ...

    def retry_now(self) -> None:
        """Send a request that waits to be retried at once."""
        ...

    async def find_price(self) -> PriceTable | None:
        """Return the price of the model, looked up at the endpoint if need be; None if it is not known."""
        ...

    def with_model_and_effort(self, model: str, effort: str) -> "ModelPort":
        """Return the client for a turn with another model or effort; empty values keep the current ones."""
        ...

    def open_isolated_client(self) -> AbstractAsyncContextManager["ModelPort"]:
        """Return a client for the same model that tries once, and discards the corrections that it learns."""
        ...


class TurnClaim(Protocol):
    """The right to run the turns of a session: one process has it at a time."""

    @property
    def is_held(self) -> bool:
        """Return whether this process has it."""
        ...

    def acquire(self) -> bool:
        """Take it unless another process has it; return whether it is held. May be called on any thread."""
        ...

    def release(self) -> None:
        """Release the right, so that another process can take it."""
        ...


@dataclass(frozen=True, slots=True)
class OtherSession:
    """Another session of the workspace."""

    title: str
    is_open: bool
    """Whether some process has it open, which acts at once on what is recorded in it."""


class OtherSessions(Protocol):
    """Writes events to other sessions."""

    async def record(self, session_id: str, events: Sequence[Event]) -> OtherSession | None:
        """Append events to that session's log; return None if the session no longer exists.

        Without a session, decisions among them are kept by themselves.
        """
        ...


@dataclass(frozen=True, slots=True)
class SessionPorts:
    """The surroundings of one session."""

    sink: EventSink
    others: OtherSessions
    claim: TurnClaim
    service: ProposalService
    tools: ToolSet
    workspace: Workspace
    model: ModelPort
    check_unread_limit: Callable[[], None] = lambda: None
    """Raises TooMuchUnread if the reading budget has no room for another edit; may be called on any thread."""
    commit: Callable[[Proposal], str] | None = None
    """Makes a git commit of an approved proposal and returns its id; None if the user has not asked for that."""
    run_checks: "Callable[[Draft], Coroutine[Any, Any, str]] | None" = None
    """Runs the checks of a draft that answer its step; gives what they say against it, empty if nothing."""
    tree_id: "Callable[[PendingFiles], str]" = lambda pending: ""
    """Gives the id of the workspace's tree under pending changes; blocks; raises OSError."""
    read_image: Callable[[str], bytes] | None = None
    """Gives the bytes of an image by their SHA-256; raises KeyError."""
    save_images: Callable[[Sequence[bytes]], object] = lambda contents: None
    """Keeps the bytes of images; raises StorageError."""
    allowed_forms: AllowedFormStore | None = None
    """Forms of commands that are allowed for good; None where nobody is there to have allowed them."""
    side_questions: Callable[[str], Sequence[Event]] = lambda proposal: ()
    """The side questions on a proposal and their answers, in whichever session they were asked."""


@dataclass(frozen=True, slots=True)
class TurnSettings:
    """Prompt and limits of a turn; the user may change them while it runs."""

    prompt: Callable[[int], str]
    """The system prompt, given how many steps of a turn may stage edits."""
    policy: GatePolicy = field(default_factory=GatePolicy)
    max_steps: int = 50
    plan: bool = False
    """The model is to plan: nothing is staged."""
    limits: SessionLimits = field(default_factory=SessionLimits)
    hold_ignored: bool = False  # What commands write of what git ignores waits until the user says so.

    @property
    def system_prompt(self) -> str:
        """Return the system prompt under this policy."""
        return self.prompt(self.policy.max_staging_steps)
