"""Examine an endpoint with small requests, and find model servers on this machine."""

import asyncio
import contextlib
import io
import json
import time
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextlib import aclosing
from functools import partial
from typing import Any

from msgspec import Struct

from app.copies import replace
from app.llm.capabilities.profiles import (
    CorrectionStore,
    find_default_profile,
    read_learned_fields,
    replace_learned_by_diagnosis,
    resolve_profile,
)
from app.llm.client import ModelClient
from app.llm.failures.failures import DOCTOR_ADVICE, redacted_line
from app.llm.failures.request_errors import FailureKind, RequestError, RetryPolicy
from app.llm.response.text_filters import has_call_markup
from app.llm.transport import Timeouts
from app.llm.values.endpoint import NEXT_PLACEMENT, EndpointProfile, Placement
from app.llm.values.requests_and_updates import Endpoint, Payload, ResponseCompleted, TextDelta
from app.llm.wires.chat import SIGNATURE_PLACEHOLDER
from app.llm.wires.wire import (
    CallWithResult,
    Item,
    ModelTurn,
    OpaqueResponseBlocks,
    SystemItem,
    UserItem,
    mark_program_text,
)
from app.llm.wires.wire_registry import WIRES, wire_for
from app.text.quantities import format_count

USUAL_PORTS = (11434, 1234, 8080, 8000)
"""Ports of Ollama, LM Studio, llama.cpp and vLLM; the kind of the server is checked."""
PATIENCE = 0.5
"""Seconds for the whole search."""
_LOOPBACK = "127.0.0.1"
_MAX_ANSWER_BYTES = 2**20
_KINDS_BY_OWNER = {"vllm": "vllm", "llamacpp": "llama.cpp", "library": "ollama"}
"""Kinds of servers by the field `owned_by` in the list of models."""


class DetectedLocalServer(Struct, frozen=True):
    """An OpenAI-compatible server on this machine."""

    kind: str
    """A key of `app.llm.capabilities.profiles.DEFAULT_PROFILES`."""
    base_url: str
    models: tuple[str, ...]


async def find_local_servers(
    ports: Iterable[int] = USUAL_PORTS, max_wait_seconds: float = PATIENCE
) -> list[DetectedLocalServer]:
    """Return the servers that answer within `max_wait_seconds`, in the order of `ports`; uses loopback only."""
    tasks = [asyncio.ensure_future(_identify(port)) for port in ports]
    if not tasks:
        return []
    try:
        await asyncio.wait(tasks, timeout=max_wait_seconds)
    finally:
        for task in tasks:
            task.cancel()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    return [result for result in results if isinstance(result, DetectedLocalServer)]


async def _identify(port: int) -> DetectedLocalServer | None:
    listing = await _get(port, "/v1/models")
    entries = listing.get("data") if isinstance(listing, Mapping) else None
    if not isinstance(entries, list):
        return None
    cards = [card for card in entries if isinstance(card, Mapping) and isinstance(card.get("id"), str)]
    owners = {str(card.get("owned_by")) for card in cards}
    kind = next((_KINDS_BY_OWNER[owner] for owner in sorted(owners) if owner in _KINDS_BY_OWNER), None)
    return DetectedLocalServer(
        kind=kind or await _identify_by_greeting(port),
        base_url=f"http://{_LOOPBACK}:{port}/v1",
        models=tuple(str(card["id"]) for card in cards if "embed" not in str(card["id"]).lower()),
    )


async def _identify_by_greeting(port: int) -> str:
    """Return the kind by LM Studio's greeting or Ollama's version; both answer unknown paths: check the content."""
    greeting, version = await asyncio.gather(_get(port, "/lmstudio-greeting"), _get(port, "/api/version"))
    if isinstance(greeting, Mapping) and greeting.get("lmstudio") is True:
        return "lmstudio"
    if isinstance(version, Mapping) and isinstance(version.get("version"), str):
        return "ollama"
    return "unknown"


async def _get(port: int, path: str) -> Any:
    """Return the JSON at a path of a local server; None on any error. HTTP/1.0: the body ends with the connection."""
    try:
        reader, writer = await asyncio.open_connection(_LOOPBACK, port)
        with contextlib.closing(writer):
            request = f"GET {path} HTTP/1.0\r\nHost: {_LOOPBACK}:{port}\r\nConnection: close\r\n\r\n"
            writer.write(request.encode())
            head = (await reader.readuntil(b"\r\n\r\n")).lower()
            body = bytearray()
            while len(body) < _MAX_ANSWER_BYTES and (piece := await reader.read(2**16)):
                body += piece
        if head.split(b"\r\n", 1)[0].split(b" ")[1:2] != [b"200"]:
            return None
        return json.loads(_decode_chunked(bytes(body)) if b"transfer-encoding: chunked" in head else bytes(body))
    except (OSError, ValueError, EOFError, RecursionError, asyncio.LimitOverrunError):
        return None


def _decode_chunked(body: bytes) -> bytes:
    """Return the content of a chunked body (RFC 9112, section 7.1); some servers send it to HTTP/1.0 clients too."""
    content = io.BytesIO()
    rest = io.BytesIO(body)
    while (size := rest.readline()) and (length := int(size.split(b";")[0], 16)):
        content.write(rest.read(length))
        rest.readline()
    return content.getvalue()


_ANSWER_TOKENS = 256
"""Enough for a model that reasons before it answers with one word."""
WORD = "heron"
"""The answer of a model that has read `SAY_IT`."""
CALL_IT = "Call the tool `report` with the word 'ok'. Do not answer with text, only call the tool."
"""Asks the model to call a tool."""
SAY_IT = f"From now on, answer every message with the single word {WORD} and nothing else."
_TOOL: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "report",
        "description": "Reports a word.",
        "parameters": {"type": "object", "properties": {"word": {"type": "string"}}, "required": ["word"]},
    },
}
_SYSTEM_PROMPT = "You are taking part in a short technical check. Follow instructions exactly."


class EndpointProbeOutcome(Struct):
    """The model's response to a probe request, or the error."""

    completed: ResponseCompleted | None = None
    failed: RequestError | None = None
    pieces: int = 0

    @property
    def text(self) -> str:
        """Return the text of the model's response."""
        return self.completed.text if self.completed else ""

    @property
    def is_cut(self) -> bool:
        """Return whether the connection ended before the response did."""
        return bool(self.completed and self.completed.truncated and self.completed.finish_reason is None)

    @property
    def has_call(self) -> bool:
        """Return whether the model called a tool."""
        return bool(self.completed and self.completed.calls)


async def send_probe(
    client: ModelClient, build_payload: Callable[[EndpointProfile], Payload]
) -> EndpointProbeOutcome:
    """Send one request; a failure is part of the outcome."""
    answer = EndpointProbeOutcome()
    try:
        async with aclosing(client.stream(build_payload)) as updates:
            async for update in updates:
                match update:
                    case TextDelta():
                        answer.pieces += 1
                    case ResponseCompleted():
                        answer.completed = update
    except RequestError as failed:
        answer.failed = failed
    return answer


def make_probe_payload(
    profile: EndpointProfile, text: str, *, tools: bool = False, forbids_calls: bool = False
) -> Payload:
    """Return a payload of one user message, with or without a tool, and with or without permission to call it."""
    items = _opening_items(profile, _SYSTEM_PROMPT, text)
    return _make_payload(profile, items, [_TOOL] if tools else [], forbids_calls=forbids_calls)


def make_payload_with_placed_instruction(profile: EndpointProfile, instruction: str) -> Payload:
    """Return a payload with a tool exchange, then an instruction in the profile's placement."""
    call = CallWithResult(
        id="abcdef123" if profile.tool_id == "alnum9" else "call_1",
        name="report",
        arguments='{"word": "ok"}',
        result="reported",
        extras=SIGNATURE_PLACEHOLDER,
    )
    instruction_text = "Report the word ok."
    exchange: list[Item] = [ModelTurn("ok"), UserItem(instruction_text)]
    if profile.tools_supported:
        exchange = [ModelTurn("", (call,), OpaqueResponseBlocks(same_model=True))]
    match profile.mid_system:
        case "inline":
            items = [*_opening_items(profile, _SYSTEM_PROMPT, instruction_text), *exchange, SystemItem(instruction)]
        case "fold_first":
            items = [*_opening_items(profile, f"{_SYSTEM_PROMPT}\n\n{instruction}", instruction_text), *exchange]
        case _:
            items = [
                *_opening_items(profile, _SYSTEM_PROMPT, instruction_text),
                *exchange,
                ModelTurn("Done."),
                UserItem(mark_program_text(instruction)),
            ]
    return _make_payload(profile, items, [_TOOL] if profile.tools_supported else [], forbids_calls=True)


def _opening_items(profile: EndpointProfile, system: str, user: str) -> list[Item]:
    if profile.mid_system == "fold_user":
        return [UserItem(f"<system>{system}</system>\n\n{user}")]
    return [SystemItem(system), UserItem(user)]


def _make_payload(
    profile: EndpointProfile, items: list[Item], tools: list[dict[str, Any]], *, forbids_calls: bool
) -> Payload:
    wire = wire_for(profile)
    messages, system = wire.make_messages(items, wire.adapt_profile(profile))
    return Payload(messages, tools, "none" if forbids_calls and tools else None, _ANSWER_TOKENS, system)


CHECKS = ("reachable", "key", "model", "wire", "streaming", "usage", "tools", "tool_choice", "mid_system")
"""Checks of every examination, in the order of the report."""

_PROFILE_FIELDS = {
    "usage": "stream_usage",
    "tools": "tools_supported",
    "tool_choice": "tool_choice_none",
    "mid_system": "mid_system",
}
"""Profile fields for which the probes start with the best value, by the check that confirms each."""
_BEST_ASSUMPTIONS: dict[str, Any] = {
    "stream_usage": True,
    "tools_supported": True,
    "tool_choice_none": "honoured",
    "mid_system": "inline",
    "images_supported": None,
}
_PLACEMENT_TEXTS: dict[Placement, str] = {
    "fold_first": "they are joined to the first one",
    "fold_user": "they are marked as such in the user's messages",
}
_ACCEPTED_WITHOUT_CALL = "taken, but the model did not call one when told to"
_PASSING_KINDS = (FailureKind.RATE_LIMITED, FailureKind.STREAM_BROKEN, FailureKind.UNREACHABLE)
"""Failures that say nothing about what the endpoint supports."""
_CHECK_RETRY = RetryPolicy(attempts=2, total=20.0, longest_hint=10.0)


class DoctorCheckResult(Struct, frozen=True):
    """Result of one check of the endpoint."""

    name: str
    ok: bool | None
    """None if it could not be determined."""
    detail: str
    """One line."""


class EndpointDiagnosis(Struct, frozen=True):
    """The results of all checks of an endpoint, the resulting profile, and whether signoff can work with it."""

    checks: tuple[DoctorCheckResult, ...]
    profile: EndpointProfile
    """What the endpoint supports according to the checks."""
    usable: bool
    """Whether signoff can work with the endpoint; the gate holds in any case."""
    summary: str
    """One line."""


def describe_learned_fields(cache: CorrectionStore, endpoint: Endpoint) -> DoctorCheckResult:
    """Return a check result that lists the learned facts of an endpoint, their age, and how to override them."""
    learned_fields = read_learned_fields(cache, endpoint.base_url, endpoint.model)
    if not learned_fields:
        return DoctorCheckResult("learned", True, "nothing that differs from what is known of such servers")
    descriptions = (
        f"{learned.field} = {json.dumps(learned.value)} ({_format_age(time.time() - learned.since)})"
        for learned in learned_fields
    )
    return DoctorCheckResult(
        "learned", True, f"{', '.join(descriptions)}; [profile] in the configuration goes over it"
    )


def _format_age(seconds: float) -> str:
    days = int(seconds // 86_400)
    return "today" if days < 1 else format_count(days, "day") + " ago"


async def examine_endpoint(
    endpoint: Endpoint,
    profile: EndpointProfile,
    *,
    timeouts: Timeouts | None = None,
    retry: RetryPolicy = _CHECK_RETRY,
) -> AsyncGenerator[DoctorCheckResult | EndpointDiagnosis]:
    """Examine an endpoint; yield each finding as soon as it is known, and the diagnosis at the end.

    The probes cost some hundred tokens. They start with the best assumptions, whatever `profile` has; fields that
    they neither confirm nor refute keep the values of `profile`.
    """
    client = ModelClient(endpoint, profile.model_copy(update=_BEST_ASSUMPTIONS), retry=retry, timeouts=timeouts)
    checks: list[DoctorCheckResult] = []
    try:
        async with aclosing(_run_checks(client)) as found:
            async for check in found:
                checks.append(replace(check, detail=check.detail.removesuffix(f" {DOCTOR_ADVICE}")))
                yield checks[-1]
    finally:
        await client.aclose()
    known = find_default_profile(endpoint.base_url, endpoint.model, profile.wire)
    final = _final_profile(client.profile, checks, profile, known)
    # No probe uses the user's request settings, images or MCP tools: the next request finds out what is refused.
    forgotten: dict[str, Any] = {"refused": {}, "refused_images": [], "refused_tools": []}
    if not any(check.name == "streaming" and check.ok for check in checks):
        forgotten["images_supported"] = profile.images_supported
    yield _make_diagnosis(checks, final.model_copy(update=forgotten))


async def examine_and_learn(
    cache: CorrectionStore, endpoint: Endpoint, overrides: Mapping[str, Any]
) -> AsyncGenerator[DoctorCheckResult | EndpointDiagnosis]:
    """Examine an endpoint under the user's `[profile]`, like `examine_endpoint`, and store what is learned.

    Raises:
        InvalidProfileSetting: as `resolve_profile`.
    """
    resolve = partial(resolve_profile, endpoint.base_url, endpoint.model, cache=cache)

    def store(found: EndpointProfile) -> None:
        # The user's overrides stay in the configuration; don't store them as learned values.
        without = resolve()
        learned = found.model_copy(update={field: getattr(without, field) for field in overrides})
        replace_learned_by_diagnosis(cache, endpoint, learned, overrides.get("wire"))

    profile = await asyncio.to_thread(resolve, overrides=overrides)
    async with aclosing(examine_endpoint(endpoint, profile)) as findings:
        async for finding in findings:
            if isinstance(finding, EndpointDiagnosis):
                await asyncio.to_thread(store, finding.profile)
            yield finding


async def _run_checks(client: ModelClient) -> AsyncGenerator[DoctorCheckResult]:
    names: list[str] | None = None
    listing: RequestError | None = None
    unreachable = client.find_settings_fault()
    if not unreachable:
        try:
            names = [model.id for model in await client.list_models()]
        except RequestError as refusal:
            listing = refusal
            unreachable = refusal.message if refusal.kind is FailureKind.UNREACHABLE else ""
    if unreachable:
        yield DoctorCheckResult("reachable", False, unreachable)
        for check in _unchecked(CHECKS[1:], "the server cannot be reached"):
            yield check
        return
    reachable = DoctorCheckResult("reachable", True, client.endpoint.base_url)
    has_answered = listing is None or listing.status is not None
    if has_answered:
        # The first response of a model may take minutes.
        yield reachable
    make_hello = partial(make_probe_payload, text="Answer with the single word ok.")
    hello = await send_probe(client, make_hello)
    if hello.is_cut:
        # A server that sends no finish reasons is recognised by its second response.
        hello = await send_probe(client, make_hello)
    failed = hello.failed
    if not has_answered:
        if failed is not None and failed.kind is FailureKind.UNREACHABLE:
            reachable = DoctorCheckResult("reachable", False, failed.message)
        yield reachable
    yield _check_key(client, hello)
    yield _check_model(client, hello, names)
    yield _check_wire(client, hello)
    if failed is not None:
        detail = "" if failed.kind in (FailureKind.AUTH, FailureKind.MODEL_NOT_FOUND) else failed.message
        yield DoctorCheckResult("streaming", False if detail else None, detail or "not checked: the request failed")
        for check in _unchecked(CHECKS[5:], "the request failed"):
            yield check
        return
    yield _check_streaming(hello)
    yield _check_usage(client, hello)
    async with aclosing(_check_tools(client)) as found:
        async for check in found:
            yield check
    yield await _check_mid_system(client)


def _unchecked(names: tuple[str, ...], reason: str) -> list[DoctorCheckResult]:
    return [DoctorCheckResult(name, None, f"not checked: {reason}") for name in names]


def _check_key(client: ModelClient, hello: EndpointProbeOutcome) -> DoctorCheckResult:
    if hello.failed is not None and hello.failed.kind in (FailureKind.AUTH, FailureKind.QUOTA):
        return DoctorCheckResult("key", False, hello.failed.message)
    if hello.failed is not None:
        return DoctorCheckResult("key", None, "not checked: the request failed")
    endpoint = client.endpoint
    accepted = f"accepted: the one in {endpoint.key_from}" if endpoint.key_from else "accepted"
    return DoctorCheckResult("key", True, accepted if endpoint.api_key is not None else "none needed")


def _check_model(client: ModelClient, hello: EndpointProbeOutcome, names: list[str] | None) -> DoctorCheckResult:
    wanted, origin = client.endpoint.model, client.endpoint.model_from
    offered = redacted_line(", ".join(names[:5]) + (", …" if len(names) > 5 else "")) if names else ""
    if hello.failed is not None and hello.failed.kind is FailureKind.MODEL_NOT_FOUND:
        named = f" The name is from {origin}." if origin else ""
        return DoctorCheckResult(
            "model", False, hello.failed.message + named + (f" It offers: {offered}." if offered else "")
        )
    origin_text = f", from {origin}" if origin else ""
    if hello.failed is not None and names is not None and wanted in names:
        return DoctorCheckResult("model", True, f"{wanted} is listed{origin_text}")
    if hello.failed is not None:
        return DoctorCheckResult("model", None, f"{wanted}{origin_text}; not checked")
    if names and wanted not in names:
        served = redacted_line(hello.completed.model) if hello.completed else ""
        wanted += " answers, though it is not listed" + (f" (as {served})" if served else "")
    return DoctorCheckResult("model", True, f"{wanted}{origin_text}")


def _check_wire(client: ModelClient, hello: EndpointProbeOutcome) -> DoctorCheckResult:
    title = wire_for(client.profile).title
    others = ", ".join(f"`{name}`" for name in WIRES if name != client.profile.wire)
    if hello.failed is not None:
        return DoctorCheckResult("wire", None, f"asked in {title}; `wire` in the configuration changes it ({others})")
    return DoctorCheckResult("wire", True, f"{title}; `wire` in the configuration changes it ({others})")


def _check_streaming(hello: EndpointProbeOutcome) -> DoctorCheckResult:
    if hello.is_cut:
        return DoctorCheckResult(
            "streaming", False, "The server, or a proxy before it, ends each response before it is complete."
        )
    completed = hello.completed
    if completed is not None and not (completed.text or completed.reasoning or completed.calls):
        return DoctorCheckResult("streaming", None, "works, but the model answered with nothing")
    return DoctorCheckResult(
        "streaming", True, f"{hello.pieces} pieces" if hello.pieces > 1 else "works, in one piece"
    )


def _check_usage(client: ModelClient, hello: EndpointProbeOutcome) -> DoctorCheckResult:
    if hello.completed is not None and hello.completed.usage is not None:
        return DoctorCheckResult("usage", True, "token counts come with the stream")
    refused = "refused" if not client.profile.stream_usage else "not sent"
    return DoctorCheckResult("usage", False, f"token counts are {refused}; they are estimated")


async def _check_tools(client: ModelClient) -> AsyncGenerator[DoctorCheckResult]:
    tempted = await send_probe(client, lambda profile: make_probe_payload(profile, CALL_IT, tools=True))
    if not client.profile.tools_supported:
        yield DoctorCheckResult(
            "tools", False, "the model accepts no tools here: it can talk, but neither read files nor edit"
        )
        yield DoctorCheckResult("tool_choice", None, "not checked: no tools")
        return
    if tempted.failed is not None:
        yield DoctorCheckResult(
            "tools", None if tempted.failed.kind in _PASSING_KINDS else False, tempted.failed.message
        )
        yield DoctorCheckResult("tool_choice", None, "not checked: no tools")
        return
    bad = next((call.invalid for call in tempted.completed.calls if call.invalid), "") if tempted.completed else ""
    if tempted.has_call:
        yield DoctorCheckResult("tools", not bad, bad or "the model calls them")
    else:
        yield DoctorCheckResult("tools", None, _ACCEPTED_WITHOUT_CALL)
    refrained = await send_probe(
        client, lambda profile: make_probe_payload(profile, CALL_IT, tools=True, forbids_calls=True)
    )
    yield _check_tool_choice(client, tempted, refrained)


def _check_tool_choice(
    client: ModelClient, tempted: EndpointProbeOutcome, refrained: EndpointProbeOutcome
) -> DoctorCheckResult:
    held = "the gate holds by the instruction and the executor"
    problems = {
        "rejected": "“none” is rejected",
        "fails": "“none” is an error if the model calls a tool",
        "ignored": "“none” is ignored: the model calls a tool all the same",
    }
    if problem := problems.get(client.profile.tool_choice_none):
        return DoctorCheckResult("tool_choice", False, f"{problem}; {held}")
    if refrained.failed is not None:
        return DoctorCheckResult("tool_choice", None, refrained.failed.message)
    if has_call_markup(refrained.text):
        return DoctorCheckResult(
            "tool_choice", False, f"under “none” the call comes out as text, which is hidden; {held}"
        )
    if not tempted.has_call:
        return DoctorCheckResult("tool_choice", None, "“none” is taken; whether it is honoured cannot be told")
    return DoctorCheckResult("tool_choice", True, "“none” is honoured")


async def _check_mid_system(client: ModelClient) -> DoctorCheckResult:
    """Check whether the model follows an instruction in mid-conversation to answer with a certain word.

    If the instruction is accepted without effect, the chat template may have dropped it: try the other placements.
    """
    outcome = await send_probe(client, lambda profile: make_payload_with_placed_instruction(profile, SAY_IT))
    placement = client.profile.mid_system
    if outcome.failed is not None:
        return DoctorCheckResult("mid_system", None, outcome.failed.message)
    refused = placement != "inline"
    acceptance = "refused" if refused else "taken, but lost"
    current_placement: Placement | None = placement
    while current_placement is not None and WORD not in outcome.text.lower():
        current_placement = NEXT_PLACEMENT.get(current_placement)
        if current_placement is not None:
            outcome = await send_probe(client, partial(_exchange_payload_with_placement, current_placement))
    if current_placement is None:
        current_placement = placement if refused else None
    if current_placement == "inline":
        return DoctorCheckResult("mid_system", True, "taken and followed in mid-conversation")
    if current_placement is None:
        return DoctorCheckResult("mid_system", None, "taken; whether the model reads them cannot be told")
    return DoctorCheckResult(
        "mid_system", False, f"{acceptance} in mid-conversation; {_PLACEMENT_TEXTS[current_placement]}"
    )


def _exchange_payload_with_placement(placement: Placement, profile: EndpointProfile) -> Payload:
    return make_payload_with_placed_instruction(profile.model_copy(update={"mid_system": placement}), SAY_IT)


def _final_profile(
    found: EndpointProfile, checks: list[DoctorCheckResult], given: EndpointProfile, known: EndpointProfile
) -> EndpointProfile:
    """Return the profile after the checks. Unconfirmed fields fall back to `given`; an inline placement that works
    falls back to the best one known for such a server."""
    results = {check.name: check for check in checks}
    placement = results["mid_system"]
    if placement.ok is False:
        best = next(
            (place for place, words in _PLACEMENT_TEXTS.items() if placement.detail.endswith(words)), found.mid_system
        )
        found = found.model_copy(update={"mid_system": best})
    elif placement.ok and found.mid_system == "inline" and found.wire == "chat":
        # On the other wires inline is best if it works: it keeps the earlier messages in the prompt cache.
        found = found.model_copy(update={"mid_system": known.mid_system})
    unconfirmed = {
        assumption: getattr(given, assumption)
        for name, assumption in _PROFILE_FIELDS.items()
        if results[name].ok is not True
        and results[name].detail != _ACCEPTED_WITHOUT_CALL
        and getattr(found, assumption) == _BEST_ASSUMPTIONS[assumption]
    }
    return found.model_copy(update=unconfirmed)


def _make_diagnosis(checks: list[DoctorCheckResult], profile: EndpointProfile) -> EndpointDiagnosis:
    checks_by_name = {check.name: check for check in checks}
    fatal = [name for name in ("reachable", "key", "model", "streaming") if checks_by_name[name].ok is False]
    limits = [check.name for check in checks if check.ok is not True]
    usable = not fatal and checks_by_name["tools"].ok is not False
    if fatal:
        summary = checks_by_name[fatal[0]].detail
    elif not usable:
        summary = "Talks, but without tools it can neither read files nor edit."
    elif limits:
        summary = f"Works; without certainty or with a fallback: {', '.join(limits)}."
    else:
        summary = "Works, and honours everything that was asked."
    return EndpointDiagnosis(tuple(checks), profile, usable, summary)
