"""Find out where a chat template keeps the program's instructions, from prompts that the server renders.

A chat template may silently drop a system message in mid-conversation; then the closing instruction never reaches the
model. Some servers render a conversation without running the model, which shows what each placement keeps:

- llama.cpp and servers based on it: `POST /apply-template`, with the body of a chat completion;
- vLLM and SGLang: `POST /tokenize` with messages, and `POST /detokenize`;
- Ollama from 0.12 on: a chat completion with `_debug_render_only`, documented in its source in `api/types.go`.

A result only selects among changes that a refusal can also cause, so a server gains nothing by lying.
"""

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from app.copies import replace
from app.llm.failures.failures import ErrorToFailureTranslator, parse_json_or_text
from app.llm.values.endpoint import NEXT_PLACEMENT, EndpointProfile, Placement
from app.llm.values.requests_and_updates import Endpoint, Payload
from app.llm.wires.wire import mapping_or_empty
from app.llm.wires.wire_registry import RequestInputs

_CHANGEABLE_FIELDS = (
    *("mid_system", "bridge_tool_user", "single_call_turns", "merge_users"),
    *("tool_id", "tool_name_on_result", "empty_content", "text_beside_calls"),
)
"""Profile fields that a rendering can change: the form and the order of messages."""
_PLACEMENT_CORRECTIONS = frozenset(
    f"{also}mid_system:{place}" for also in ("", "alternate+") for place in ("fold_first", "fold_user")
)
"""Names of the corrections that change the placement; excluded, because the check tries the placements itself."""
_MAX_CORRECTIONS = 6
"""Maximum number of corrections tried for one placement."""
_OTHER_STATUSES = (401, 403, 404, 405, 501)
"""Statuses that are not the template's refusal: no permission, or no such path."""
_MIN_OLLAMA_VERSION = (0, 12)
"""Ollama's first version whose chat completions support `_debug_render_only`; earlier ones would run the model."""


class ChatTemplateProbe(Struct, frozen=True):
    """A conversation that the server renders with its chat template, to check the template."""

    payload: Payload
    marks: tuple[str, ...]
    """Texts of the program and the user; the rendered prompt must contain each of them."""


TrialBuilder = Callable[[EndpointProfile], Sequence[ChatTemplateProbe]]
"""Returns the conversations of a check in the form that a profile requires."""


RequestSender = Callable[[str, Mapping[str, Any] | None], Awaitable[tuple[int, str]]]
"""Sends a small request to a path below the server's root, which is the base URL without `/v1`: POST with a body, GET
without one. Returns status and text of the answer; raises AttemptFailed if there is none, or it is too large."""


class MessagePlacementResult(Struct, frozen=True):
    """The placement of system messages that the server's chat template keeps, if any, and the profile changes."""

    server: str
    """The kind of server that rendered: `llama.cpp`, `vllm`, `ollama`."""
    placement: Placement | None
    """The first placement in which the template keeps all messages; None if it keeps them in none."""
    changes: dict[str, Any]
    """Changed profile fields for this placement, always including the placement."""


class _RenderRefusal(Struct, frozen=True):
    status: int
    text: str


_RenderResult = str | _RenderRefusal | None
"""A prompt, the template's refusal, or None if the server does not support rendering this way."""


async def find_placement_kept_by_chat_template(
    endpoint: Endpoint, profile: EndpointProfile, build: TrialBuilder, send: RequestSender
) -> MessagePlacementResult | None:
    """Find the message placement that the chat template keeps; None if the server can't render.

    Raises AttemptFailed.
    """
    search = _PlacementSearch(endpoint, build, send)
    given = profile.model_copy(update={"mid_system": "inline"})
    for name, render in _RENDERERS.items():
        trial = build(given)[0]
        body = RequestInputs(endpoint.model, given, replace(trial.payload, options=endpoint.options)).make_body()
        if await render(send, body) is not None:
            return await search.find_placement(name, render, given)
    return None


class _PlacementSearch:
    def __init__(self, endpoint: Endpoint, build: TrialBuilder, send: RequestSender) -> None:
        self._endpoint = endpoint
        self._build = build
        self._send = send
        self._translator = ErrorToFailureTranslator(endpoint)

    async def find_placement(
        self, server: str, render: "_Renderer", given: EndpointProfile
    ) -> MessagePlacementResult:
        """Return the finding for the best placement that works; they are tried from the best to the worst."""
        placement: Placement | None = "inline"
        while placement is not None:
            corrected = await self._correct_until_kept(render, given.model_copy(update={"mid_system": placement}))
            if corrected is not None:
                changes = {name: value for name, value in corrected if value != getattr(given, name)}
                return MessagePlacementResult(server, placement, {**changes, "mid_system": placement})
            placement = NEXT_PLACEMENT.get(placement)
        return MessagePlacementResult(server, None, {})

    async def _correct_until_kept(self, render: "_Renderer", profile: EndpointProfile) -> EndpointProfile | None:
        """Return the profile with the corrections that the template needs; None if it does not keep every mark."""
        # Imported here, because compiling its many patterns takes time. The connection's thread has loaded it by now.
        from app.llm.capabilities.corrections import find_correction

        tried = set(_PLACEMENT_CORRECTIONS)
        for _ in range(_MAX_CORRECTIONS):
            refusal, payload = await self._first_refusal(render, profile)
            if refusal is None:
                return profile if payload is None else None
            assert payload is not None
            failure = self._translator.describe_response(refusal.status, {}, refusal.text)
            found = find_correction(profile, failure, payload, tried)
            if found is None or any(
                value != getattr(profile, field) for field, value in found.profile if field not in _CHANGEABLE_FIELDS
            ):
                return None
            tried.add(found.name)
            profile = found.profile
        return None

    async def _first_refusal(
        self, render: "_Renderer", profile: EndpointProfile
    ) -> tuple[_RenderRefusal | None, Payload | None]:
        """Return the first refusal and its payload, only the payload that loses a mark, or neither if all is kept."""
        for trial in self._build(profile):
            payload = replace(trial.payload, options=self._endpoint.options)
            answer = await render(self._send, RequestInputs(self._endpoint.model, profile, payload).make_body())
            if isinstance(answer, _RenderRefusal):
                return answer, payload
            if answer is None or any(mark not in answer for mark in trial.marks):
                return None, payload
        return None, None


_Renderer = Callable[[RequestSender, Mapping[str, Any]], Awaitable[_RenderResult]]
"""Lets the server render the body of a chat completion."""


async def _ask_llama_cpp(send: RequestSender, body: Mapping[str, Any]) -> _RenderResult:
    return _read_prompt(*await send("/apply-template", body), "prompt")


async def _ask_vllm(send: RequestSender, body: Mapping[str, Any]) -> _RenderResult:
    names = ("model", "messages", "tools", "chat_template_kwargs")
    request_body = {name: body[name] for name in names if name in body}
    status, text = await send("/tokenize", request_body)
    if status != 200:
        return _read_prompt(status, text)
    tokens = _object_in(text).get("tokens")
    # llama.cpp has a different /tokenize, which returns no tokens for these fields.
    if not isinstance(tokens, list) or not tokens:
        return None
    answer = _read_prompt(*await send("/detokenize", {"model": body["model"], "tokens": tokens}), "prompt", "text")
    return answer if isinstance(answer, str) else None


async def _ask_ollama(send: RequestSender, body: Mapping[str, Any]) -> _RenderResult:
    if str(body["model"]).endswith("cloud"):
        # Ollama forwards these models to its own servers.
        return None
    version = re.match(r"(\d{1,4})\.(\d{1,4})", str(_object_in((await send("/api/version", None))[1]).get("version")))
    if version is None or (int(version[1]), int(version[2])) < _MIN_OLLAMA_VERSION:
        return None
    request_body = {name: value for name, value in body.items() if name != "stream_options"}
    request_body |= {"stream": False, "max_tokens": 1, "_debug_render_only": True}
    status, text = await send("/v1/chat/completions", request_body)
    if status != 200:
        return _read_prompt(status, text)
    prompt = mapping_or_empty(_object_in(text).get("_debug_info")).get("rendered_template")
    return prompt if isinstance(prompt, str) else None


_RENDERERS: dict[str, _Renderer] = {"llama.cpp": _ask_llama_cpp, "vllm": _ask_vllm, "ollama": _ask_ollama}


def _read_prompt(status: int, text: str, *names: str) -> _RenderResult:
    """Return the first of these fields that is a string; a refusal if it is a template's error; else None."""
    if status == 200:
        found = _object_in(text)
        return next((found[name] for name in names if isinstance(found.get(name), str)), None)
    is_refusal = status >= 400 and status not in _OTHER_STATUSES and _object_in(text)
    return _RenderRefusal(status, text) if is_refusal else None


def _object_in(text: str) -> Mapping[str, Any]:
    """Return the JSON object in a text; empty if there is none."""
    return mapping_or_empty(parse_json_or_text(text))
