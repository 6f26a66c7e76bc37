"""Ports of a session; the code that opens the session implements them."""

from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Struct, field

from app.agent.gate import GateClosingPolicy
from app.agent.limits import SessionLimits
from app.agent.permission_requests import PermanentPermissionStore
from app.config.config_tables import PriceTable
from app.conversation.events import Event
from app.conversation.log import EventStoreInterface
from app.llm.values.endpoint import EndpointProfile
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
    def profile(self) -> EndpointProfile:
        """Return the known profile of the endpoint."""

    def stream(
        self, build: Callable[[EndpointProfile], Payload], *, closing: bool = False
    ) -> AsyncGenerator[StreamUpdate]:
        """Send one request with the payload that `build` returns (called on a thread); raise `RequestError`."""

    def retry_now(self) -> None:
        """Retry a request at once that waits for its retry time."""

    async def find_price(self) -> PriceTable | None:
        """Return the price of the model, if needed by asking the endpoint; None if it is unknown."""

    def with_model_and_effort(self, model: str, effort: str) -> "ModelPort":
        """Return the client for a turn with another model or effort; empty values keep the current ones."""

    def open_isolated_client(self) -> AbstractAsyncContextManager["ModelPort"]:
        """Return a client for the same model that does not retry and discards learned corrections."""


class TurnClaim(Protocol):
    """The right to run the turns of a session; only one process can hold it."""

    @property
    def is_held(self) -> bool:
        """Return whether this process holds the right."""

    def acquire(self) -> bool:
        """Take the right unless another process holds it; return whether it is held. May be called on any thread."""

    def release(self) -> None:
        """Release the right, so that another process can take it."""


class OtherSession(Struct, frozen=True):
    """Another session of the workspace."""

    title: str
    is_open: bool
    """Whether a process has it open and reacts at once to new events."""


class OtherSessionLogWriterPort(Protocol):
    """The logs of the workspace's other sessions; events can be appended to them."""

    async def record(self, session_id: str, events: Sequence[Event]) -> OtherSession | None:
        """Append events to that session's log; return None if the session does not exist any more.

        In that case the decisions among the events are stored without a session.
        """


class SessionPorts(Struct, frozen=True):
    """Services that one session uses."""

    sink: EventStoreInterface
    other_sessions: OtherSessionLogWriterPort
    claim: TurnClaim
    service: ProposalService
    tools: ToolSet
    workspace: Workspace
    model: ModelPort
    check_unread_limit: Callable[[], None] = lambda: None
    """Raises TooManyUnreadLinesToStage if there is no room for another edit; may be called on any thread."""
    commit: Callable[[Proposal], str] | None = None
    """Commits an approved proposal and returns the commit id; None if not configured."""
    run_checks: "Callable[[Draft, Callable[[], None]], Coroutine[Any, Any, str]] | None" = None
    """Runs the user's checks on a draft and returns their findings for the model; empty if there are none.

    The function is called if a check runs, before it starts.
    """
    tree_id: "Callable[[PendingFiles], str]" = lambda pending: ""
    """Returns the tree id of the workspace with these pending changes applied; blocks; raises OSError."""
    read_image: Callable[[str], bytes] | None = None
    """Returns the bytes of an image by SHA-256; raises KeyError."""
    save_images: Callable[[Sequence[bytes]], object] = lambda contents: None
    """Stores the bytes of images; raises StorageError."""
    allowed_forms: PermanentPermissionStore | None = None
    """Permanently allowed commands; None if no user is present who could have allowed any."""
    side_questions: Callable[[str], Sequence[Event]] = lambda proposal: ()
    """Returns the side questions on a proposal and their answers from all sessions."""


class TurnSettings(Struct, frozen=True):
    """Prompt and limits of a turn; the user may change them during the turn."""

    prompt: Callable[[int], str]
    """Returns the system prompt; its argument is the number of steps of a turn that may stage edits."""
    policy: GateClosingPolicy = field(default_factory=GateClosingPolicy)
    max_steps: int = 50
    plan: bool = False
    """Plan mode: edits are refused."""
    limits: SessionLimits = field(default_factory=SessionLimits)
    hold_ignored: bool = False  # Changes of commands to git-ignored files wait for the user's permission.

    @property
    def system_prompt(self) -> str:
        """Return the system prompt for the current gate policy."""
        return self.prompt(self.policy.max_staging_steps)
