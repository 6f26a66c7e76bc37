"""Cost and time limits of a session, and how much of them the session has used according to its log."""

import asyncio
import time
from collections.abc import Callable

from msgspec import Struct

from app.config.config_tables import PriceTable
from app.conversation.events import (
    AssistantMessage,
    Event,
    HistoryCompacted,
    Intervention,
    InterventionKind,
    LimitName,
    NextActionChosen,
    RequestFailed,
    RequestSent,
    SideAnswer,
    ToolResult,
    ToolStarted,
    TurnEnded,
    TurnStarted,
)
from app.conversation.payload.compaction_plan import estimate_text_tokens
from app.llm.capabilities.model_list import add_cost
from app.llm.values.requests_and_updates import TokenUsage
from app.text.quantities import format_duration

NEAR = 0.8
"""The share of a limit from which the user and the model are warned."""
_CLOSING_INPUT_TOKENS = 300
"""Estimated tokens of the closing instruction."""
_CLOSING_OUTPUT_TOKENS = 1_000
"""Tokens reserved for the response to the closing request."""
_MIN_OUTPUT_TOKENS = 500
"""Minimum number of output tokens that must be affordable for a request to be sent."""
_BYTES_PER_TOKEN = 3
"""For a response that is being received; lower than usual to avoid underestimating its cost."""
NO_PRICE = (
    "The cost limit cannot be kept, since the price of {model} is not known: set it under [price] in the "
    'configuration ("{model}" = {{ input = 3, output = 15 }}, in dollars per million tokens), or lift the limit.'
)


class SessionLimits(Struct, frozen=True):
    """Limits of a session; None means no limit."""

    max_cost: float | None = None
    """US dollars that all requests of the session may cost."""
    max_seconds: float | None = None
    """Working time of all turns in seconds, without the time spent waiting for the user."""


class ReachedLimit(Struct, frozen=True):
    """A limit that ends the turn."""

    name: LimitName
    message: str
    """One line for the user: which limit, how much is used, how to raise it."""


class LimitUse(Struct, frozen=True):
    """How much of a limit is used (`share`: 1.0 is all of it)."""

    name: LimitName
    share: float
    description: str
    """Text for the user, e.g. `$1.60 of the cost limit of $2.00`."""
    key: str
    """Identifies the limit and its value: the user and the model are warned once for each key."""


def format_cost(dollars: float) -> str:
    """Return dollars with two decimals; two significant digits below $0.10."""
    return f"${dollars:.2f}" if dollars >= 0.1 or not dollars else f"${dollars:.2g}"


_TURN_EVENTS = (NextActionChosen, RequestSent, RequestFailed, AssistantMessage, ToolStarted, ToolResult, TurnEnded)
"""Events that only a running turn writes; other events may come days after a crash that left a turn without end."""


class SessionCostAndTimeMeter:
    """Fold over the cost and working time of a session and the limit warnings that were given.

    If a response has no token count, its tokens are estimated.
    """

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._cost = 0.0
        self._unpriced = TokenUsage()
        """Tokens of responses whose cost was not recorded."""
        self._estimated_tokens = 0
        """Estimated tokens of the last request."""
        self._has_open_request = False
        """The last request has neither a response nor an error in the log yet."""
        self._worked_seconds = 0.0
        self._latest_event_time: float | None = None
        """Time of the latest event of the running turn; None if no turn runs."""
        self.announced: set[str] = set()
        """Keys (`LimitUse.key`) of the limits that were warned about."""

    @property
    def seconds(self) -> float:
        """Return the working time of all turns, including the running one."""
        running = self._clock() - self._latest_event_time if self._latest_event_time is not None else 0.0
        return self._worked_seconds + max(0.0, running)

    def cost(self, price: PriceTable) -> float:
        """Return the cost of all requests in US dollars; `price` applies to tokens without a recorded cost."""
        return self._cost + (add_cost(self._unpriced, price).cost or 0.0)

    def apply(self, event: Event) -> None:
        self._count_time(event)
        match event:
            case RequestSent():
                self._count_unanswered_request()
                self._estimated_tokens, self._has_open_request = event.estimated_tokens, True
            case RequestFailed():
                self._has_open_request = False
            case AssistantMessage():
                self._has_open_request = False
                self._add_usage(event.usage or self._estimate_usage(event))
            case HistoryCompacted() | SideAnswer():
                self._add_usage(event.usage)
            case TurnEnded():
                self._count_unanswered_request()
            case Intervention(kind=InterventionKind.LIMIT_NEAR):
                self.announced.add(event.limit)

    def _count_time(self, event: Event) -> None:
        if isinstance(event, TurnStarted):
            self._latest_event_time = event.time
            self.announced = {key for key in self.announced if not key.startswith("steps")}
        elif self._latest_event_time is not None and isinstance(event, _TURN_EVENTS):
            self._worked_seconds += max(0.0, event.time - self._latest_event_time)
            self._latest_event_time = max(event.time, self._latest_event_time)
            if isinstance(event, ToolResult):
                self._worked_seconds = max(0.0, self._worked_seconds - event.waited)
            elif isinstance(event, TurnEnded):
                self._latest_event_time = None

    def _count_unanswered_request(self) -> None:
        """Count the input of a request that ended without a recorded response or error."""
        if self._has_open_request:
            self._has_open_request = False
            self._add_usage(TokenUsage(prompt_tokens=self._estimated_tokens))

    def _estimate_usage(self, message: AssistantMessage) -> TokenUsage:
        call_characters = sum(len(call.raw_arguments or str(call.arguments)) for call in message.calls)
        output_tokens = estimate_text_tokens(message.text + message.reasoning)
        output_tokens += (call_characters + message.unfinished_calls) // _BYTES_PER_TOKEN
        return TokenUsage(prompt_tokens=self._estimated_tokens, completion_tokens=output_tokens)

    def _add_usage(self, usage: TokenUsage | None) -> None:
        if usage is None:
            return
        if usage.cost is not None:
            self._cost += usage.cost
            return
        counted = self._unpriced.model_dump(exclude={"cost"})
        self._unpriced = TokenUsage(**{name: count + getattr(usage, name) for name, count in counted.items()})


class TurnBudget:
    """The part of the limits that a turn has left.

    Args:
        price: Price of the turn's model; None if unknown.
        context_tokens: Returns the estimated tokens of the next request.
    """

    def __init__(
        self,
        usage: SessionCostAndTimeMeter,
        limits: SessionLimits,
        model: str,
        price: PriceTable | None,
        context_tokens: Callable[[], int],
    ) -> None:
        self._usage = usage
        self._limits = limits
        self._model = model
        self._price = price
        self._context_tokens = context_tokens

    def find_reached_limit(self, *, before_request: bool) -> ReachedLimit | None:
        """Return the limit that ends the turn now; None if there is none.

        Money for the closing request is reserved.

        Args:
            before_request: whether another request is planned before the closing one.
        """
        limits = self._limits
        if limits.max_seconds is not None and self._usage.seconds >= limits.max_seconds:
            used = f"The time limit of {format_duration(limits.max_seconds)} is reached"
            return ReachedLimit("time", f"{used}. Raise max_time in the configuration (signoff run: --max-time).")
        if limits.max_cost is None:
            return None
        if self._price is None:
            return ReachedLimit("cost", NO_PRICE.format(model=self._model))
        spent = self._usage.cost(self._price)
        needed = self._closing_cost + (
            self._price_of(self._context_tokens(), _MIN_OUTPUT_TOKENS) if before_request else 0
        )
        if spent + needed <= limits.max_cost:
            return None
        return ReachedLimit(
            "cost",
            f"The cost limit of {format_cost(limits.max_cost)} is reached: {format_cost(spent)} is spent, and the "
            f"next step needs up to {format_cost(needed)}. Raise max_cost in the "
            "configuration (signoff run: --max-cost).",
        )

    def measure_use(self, steps: int, step_limit: int) -> list[LimitUse]:
        """Return the used part of each limit; `steps` are those of the running turn."""
        limits = self._limits
        description = f"{steps} of the {step_limit} steps of this turn"
        uses = [LimitUse("steps", steps / step_limit, description, f"steps {step_limit}")]
        if (seconds := limits.max_seconds) is not None:
            description = f"{format_duration(self._usage.seconds)} of the time limit of {format_duration(seconds)}"
            uses.append(LimitUse("time", self._usage.seconds / seconds, description, f"time {seconds:g}"))
        if (dollars := limits.max_cost) is not None and self._price is not None:
            spent = self._usage.cost(self._price)
            description = f"{format_cost(spent)} of the cost limit of {format_cost(dollars)}"
            uses.append(LimitUse("cost", spent / dollars, description, f"cost {dollars:g}"))
        return uses

    def find_newly_near_limits(self, steps: int, step_limit: int) -> list[LimitUse]:
        """Return the limits that are nearly used up and have not been warned about."""
        uses = self.measure_use(steps, step_limit)
        return [use for use in uses if use.share >= NEAR and use.key not in self._usage.announced]

    async def wait_for_time_limit(self, waited: Callable[[], float] = lambda: 0.0) -> None:
        """Return once the time limit is reached; never return without a time limit.

        Args:
            waited: Returns the seconds spent waiting for the user since the turn's latest event.
        """
        limit = self._limits.max_seconds
        if limit is None:
            await asyncio.Event().wait()
            return
        remaining = limit - self._usage.seconds
        while remaining > 0:
            await asyncio.sleep(remaining)
            remaining = limit - self._usage.seconds + waited()

    def allows_output(self, size: int) -> bool:
        """Return whether a response of this many bytes leaves enough for the closing request."""
        limit = self._limits.max_cost
        if limit is None or self._price is None:
            return True
        tokens = size // _BYTES_PER_TOKEN
        # The closing request includes this response as input.
        cost = self._price_of(self._context_tokens() + tokens, tokens) + self._closing_cost
        return self._usage.cost(self._price) + cost <= limit

    @property
    def _closing_cost(self) -> float:
        return self._price_of(self._context_tokens() + _CLOSING_INPUT_TOKENS, _CLOSING_OUTPUT_TOKENS)

    def _price_of(self, input_tokens: int, output_tokens: int) -> float:
        assert self._price is not None, "asked for with a price"
        return (
            add_cost(TokenUsage(prompt_tokens=input_tokens, completion_tokens=output_tokens), self._price).cost or 0.0
        )
