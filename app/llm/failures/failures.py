"""Describe failed requests: the cause, the server's message, and what the user can do."""

import re
import socket
import ssl
import time
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlsplit

from app.llm.failures.request_errors import Failure, FailureKind
from app.llm.response.bounded_stream import ResponseTooLarge, parse_json
from app.llm.values.endpoint import find_environment_proxy, find_header_fault, find_url_fault, host_and_port
from app.llm.values.requests_and_updates import Endpoint

MAX_LINE_CHARACTERS = 300
"""Maximum number of characters of a server's message that the user sees."""
MAX_TEXT_CHARACTERS = 32 * 2**10
"""Maximum number of characters of a body that are searched."""

_ECHO_FIELDS = frozenset({"input", "failed_generation"})
"""Fields in which a server repeats the request or the model's output; not part of its message."""

_CONTROL_CHARACTERS = re.compile(r"[\x00-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]+")
_HEADER_NAME = re.compile(r"[\w!#$%&'*+.^`|~-]+", re.ASCII)
_SECRET = re.compile(r"\b(?:sk|gsk|pk|rk|xai|AIza|hf|nvapi|csk|key)[-_][\w*.-]{6,}|\bAIza[\w-]{10,}")
_TITLE = re.compile("<title", re.IGNORECASE)
_NON_TEXT_TAG = re.compile(r"<(?:script|style)\b", re.IGNORECASE)
_TAG = re.compile("<[^<>]*>?")
_EXCERPT_LINE, _EXCERPT_END = "------", "\nError: "
"""Around the excerpt of a template that llama.cpp shows before the error message."""
_MAX_DEPTH = 8
"""Maximum number of levels of nested errors that are searched for a message."""


def parse_json_or_text(text: str) -> Any:
    """Return the body as JSON if it is valid, else the text itself."""
    try:
        return parse_json(text)
    except (ValueError, RecursionError):
        return text


def searchable_text(body: Any) -> str:
    """Return all strings and numbers of a body including its keys; JSON inside strings is parsed."""
    return "\n".join(_collect_strings(body, depth=0))[:MAX_TEXT_CHARACTERS]


def find_error_message(body: Any, depth: int = 0) -> str:
    """Return the message in a body that is meant for the user; empty if there is none."""
    if depth > _MAX_DEPTH:
        return ""
    match body:
        case str():
            return _find_message_in_text(body[:MAX_TEXT_CHARACTERS])
        case list() if body:
            return find_error_message(body[0], depth + 1)
        case Mapping():
            return _find_message_in_object(body, depth + 1) or " ".join(filter(None, _collect_values(body, depth)))
        case _:
            return ""


def redacted_line(text: str, secrets: Iterable[str] = ()) -> str:
    """Return untrusted text as one short line without control characters and without texts that look like a key."""
    for secret in secrets:
        if len(secret) >= 4:
            text = text.replace(secret, "***")
    text = _SECRET.sub("***", text)
    line = " ".join(_CONTROL_CHARACTERS.sub(" ", text).split())
    return line if len(line) <= MAX_LINE_CHARACTERS else line[: MAX_LINE_CHARACTERS - 1].rstrip() + "…"


def _find_message_in_text(text: str) -> str:
    """Return a page's title, else its text without tags; plain text unchanged."""
    if (found := _TITLE.search(text)) and (title := text[found.end() :].partition(">")[2].partition("</")[0]).strip():
        return title
    if text.lstrip().startswith("<"):
        before, *later = _NON_TEXT_TAG.split(text)
        return _TAG.sub(" ", " ".join([before, *(piece.partition("</")[2].partition(">")[2] for piece in later)]))
    before, rule, after = text.partition(_EXCERPT_LINE)
    excerpt, said, words = after.rpartition(_EXCERPT_END)
    is_rule = rule and said and f"{excerpt}\n".lstrip("-").lstrip(" \t\r").startswith("\n")
    return f"{before.rstrip()} {words}" if is_rule else text


def _find_message_in_object(body: Mapping[str, Any], depth: int) -> str:
    error = body.get("error")
    if isinstance(error, Mapping):
        # OpenRouter: "Provider returned error", with the provider's message as JSON text.
        metadata = error.get("metadata")
        if isinstance(metadata, Mapping) and isinstance(raw := metadata.get("raw"), str) and raw.strip():
            nested = find_error_message(parse_json_or_text(raw), depth)
            if nested:
                return nested
        return find_error_message(error, depth)
    if isinstance(error, str) and error:
        description = body.get("error_description")
        return f"{error}: {description}" if isinstance(description, str) else error
    for key in ("message", "detail", "msg", "error_description", "title"):
        value = body.get(key)
        if isinstance(value, str) and value:
            nested_body = parse_json_or_text(value) if value.lstrip().startswith("{") else value
            return find_error_message(nested_body, depth) or value
        if isinstance(value, list | Mapping) and value:
            return _format_details(value)
    return ""


def _format_details(value: Any) -> str:
    """Return the messages of FastAPI's list of validation errors, or of one object."""
    lines = []
    for item in value if isinstance(value, list) else [value]:
        if isinstance(item, Mapping):
            where = ".".join(str(step) for step in item.get("loc") or ())
            words = str(item.get("msg") or item.get("message") or "")
            lines.append(f"{where}: {words}" if where else words)
        else:
            lines.append(str(item))
    return "; ".join(line for line in lines if line)


def _collect_values(value: Any, depth: int) -> Iterator[str]:
    """Yield the strings of an error in an unknown format, without the names of its fields."""
    match value:
        case str():
            yield value
        case Mapping() if depth <= _MAX_DEPTH:
            for key, item in value.items():
                yield from _collect_values(item if key not in _ECHO_FIELDS else None, depth + 1)
        case list():
            for item in value:
                yield from _collect_values(item, depth + 1)


def _collect_strings(value: Any, depth: int) -> Iterator[str]:
    if depth > 12:
        return
    match value:
        case str():
            yield value
            if value[:1] in "{[" and value.strip() and not isinstance(opened := parse_json_or_text(value), str):
                yield from _collect_strings(opened, depth + 1)
        case bool() | None:
            return
        case int() | float():
            yield str(value)
        case Mapping():
            for key, item in value.items():
                if key in _ECHO_FIELDS:
                    continue
                if isinstance(item, int | float) and not isinstance(item, bool):
                    yield f"{key}={item}"
                else:
                    yield str(key)
                    yield from _collect_strings(item, depth + 1)
        case list():
            for item in value:
                yield from _collect_strings(item, depth + 1)


DOCTOR_ADVICE = "`signoff doctor` shows what it takes."
"""Advice for a refused request, except in the results of the doctor itself."""
_PROXY_ADVICE = "Check HTTPS_PROXY, HTTP_PROXY and ALL_PROXY."
"""Advice that names the environment variables for proxies."""
_TRUST_ADVICE = "Set SSL_CERT_FILE to a file with the certificate of its authority."
_TLS_ADVICE = {
    "expired": "Tell those who run it, or check this machine's clock.",
    "not yet valid": "Check this machine's clock.",
    "mismatch": "Check the base URL.",
}
"""Advice by words of OpenSSL's reasons; `_TRUST_ADVICE` for all others."""
_MAX_COUNTDOWN_SECONDS = 60.0
"""Seconds up to which a countdown is more helpful than the time of day."""


def format_time_with_date_if_not_today(moment: datetime) -> str:
    """Return a time as `14:05`, with the date if it is not today."""
    return f"{moment:%H:%M}" if moment.date() == datetime.now().date() else f"{moment:%H:%M on %d %B}"


class ErrorToFailureTranslator:
    """Turns error responses and exceptions of one endpoint into a `Failure`, without its key or other secrets."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._host, self._url = _displayed_host_and_url(endpoint.base_url)
        secrets = [*endpoint.headers.values(), *endpoint.address.secrets]
        if endpoint.api_key is not None:
            secrets.append(endpoint.api_key.get_secret_value())
        # Also the parts of each value: a value with a line break is quoted in errors.
        self._secrets = sorted({part for value in secrets for part in (value, *value.split())}, key=len, reverse=True)

    def describe_response(self, status: int, headers: Mapping[str, str], body: str) -> Failure:
        """Describe an HTTP error response or a redirect; redirects are not followed, as they would get the key."""
        if 300 <= status < 400:
            target = redacted_line(headers.get("location", "elsewhere"), self._secrets)
            message = f"{self._host} redirects to {target} ({status}). Change the base URL if that is where it moved."
            return Failure(FailureKind.INVALID_REQUEST, message, message, status)
        return self._make_failure(status, headers, parse_json_or_text(body))

    def describe_stream_error(self, data: Any) -> Failure:
        """Describe an error object (or its text) inside a stream or in a response with status 200."""
        return self._make_failure(_find_inner_status(data), {}, data)

    def describe_unreachable(self, cause: BaseException) -> Failure:
        """Describe a connection that failed or broke before the response started."""
        links = list(exception_chain(cause))
        cause_text = next((str(link) for link in reversed(links) if str(link)), "")
        words = redacted_line(cause_text, self._secrets).rstrip(".")
        proxy = self._describe_proxy()
        retryable = True
        if refused := next((link for link in links if isinstance(link, ssl.SSLCertVerificationError)), None):
            reason = redacted_line(getattr(refused, "verify_message", "") or words).rstrip(".")
            advice = next((advice for name, advice in _TLS_ADVICE.items() if name in reason.lower()), _TRUST_ADVICE)
            message = f"{self._host} has a TLS certificate that is not trusted here ({reason}). {advice}"
            retryable = False
        elif any(isinstance(link, socket.gaierror) for link in links):
            advice = _PROXY_ADVICE if proxy else f"Check the base URL ({self._url}) and the network."
            message = f"There is no host {proxy or self._host}. {advice}"
        elif "WRONG_VERSION_NUMBER" in cause_text:
            message, retryable = f"{proxy or self._url} does not speak TLS. Check its scheme and port.", False
        elif any(isinstance(link, ConnectionRefusedError) for link in links):
            advice = f"Is it running? {_PROXY_ADVICE}" if proxy else "Is the server running?"
            message = f"Nothing answers at {proxy or self._url}. {advice}"
        else:
            message = f"The connection to {proxy or self._host} failed: {words or 'no reason given'}. Try again."
        return Failure(FailureKind.UNREACHABLE, message, words, retryable=retryable)

    def _describe_proxy(self) -> str:
        """Return the proxy in use without secrets; empty without a proxy."""
        proxy = host_and_port(find_environment_proxy(self._endpoint.base_url))
        return f"{redacted_line(proxy)}, the proxy of the environment for {self._host}" if proxy else ""

    def find_settings_fault(self) -> Failure | None:
        """Return a failure for an invalid address, key, header or proxy, before a request; None if all are valid."""
        key = self._endpoint.api_key
        sent = [("The API key", key.get_secret_value().strip() if key is not None else "")]
        sent += [(f"The header {name!r}", value) for name, value in self._endpoint.headers.items()]
        fault = next((said for name, value in sent if (said := find_header_fault(name, value))), "")
        if illegal := [name for name in self._endpoint.headers if not _HEADER_NAME.fullmatch(name)]:
            fault = f"{illegal[0]!r} cannot be the name of a header: write letters, digits and hyphens, as in X-Team"
        if wrong := find_url_fault(self._endpoint.base_url):
            fault = f"{self._endpoint.base_url!r} is not a usable base URL: {wrong}"
        elif (proxy := find_environment_proxy(self._endpoint.base_url)) and (
            wrong := find_url_fault(proxy, "http://host:8080")
        ):
            return self.describe_unusable_proxy(wrong)
        if not fault:
            return None
        message = redacted_line(f"{fault}. Check the configuration and the environment.", self._secrets)
        return Failure(FailureKind.INVALID_REQUEST, message, message)

    def describe_unusable_address(self, cause: BaseException) -> Failure:
        """Describe a base URL that the HTTP library refuses."""
        words = redacted_line(
            next((str(link) for link in reversed(list(exception_chain(cause))) if str(link)), ""), self._secrets
        )
        message = f"{self._url!r} is not a usable base URL: {words.rstrip('.')}. Check the configuration."
        return Failure(FailureKind.INVALID_REQUEST, message, message)

    def describe_unusable_proxy(self, fault: str) -> Failure:
        """Describe a proxy of the environment that is invalid or unsupported."""
        message = (
            f"The proxy of the environment for {self._host} cannot be used: {redacted_line(fault)}. {_PROXY_ADVICE}"
        )
        return Failure(FailureKind.INVALID_REQUEST, message, message)

    def describe_connect_timeout(self, seconds: float) -> Failure:
        """Describe a connection that was neither accepted nor refused in time."""
        message = f"{self._url} did not answer within {seconds:.3g} s. Check the base URL, the network and a proxy."
        return Failure(FailureKind.UNREACHABLE, message, message, retryable=True)

    def describe_slow_response(self, seconds: float) -> Failure:
        """Describe a response that takes too long."""
        message = f"{self._host} did not finish its response within {seconds:,.3g} s. Continue, or ask for less."
        return Failure(FailureKind.STREAM_BROKEN, message, message)

    def describe_silence(self, seconds: float, waiting_for: str) -> Failure:
        """Describe a server that sent no data for too long."""
        message = f"{self._host} sent nothing for {seconds:.3g} s while waiting for {waiting_for}. Try again."
        return Failure(FailureKind.STREAM_BROKEN, message, message, retryable=True)

    def describe_broken_response(self, what: str, detail: str = "") -> Failure:
        """Describe a response that is damaged or ends too early."""
        words = redacted_line(detail, self._secrets)
        message = f"The response of {self._host} {what}{f' ({words})' if words else ''}. Try again."
        return Failure(FailureKind.STREAM_BROKEN, message, f"{what}\n{detail}", retryable=True)

    def describe_oversized_response(self, too_large: ResponseTooLarge) -> Failure:
        """Describe a response that exceeds a size limit; not retried, as the same request would get the same."""
        message = f"{self._host} sent {too_large}; it was not read on. Check the server, or a proxy before it."
        return Failure(FailureKind.STREAM_BROKEN, message, message)

    def describe_non_stream(self, body: str) -> Failure:
        """Describe a response with status 200 that is neither a stream nor a completion, often a web page."""
        words = redacted_line(find_error_message(parse_json_or_text(body)), self._secrets)
        said = f" but “{words}”" if words else ""
        message = f"{self._host} answers with no model response{said}. Check the base URL (it often ends in /v1)."
        return Failure(FailureKind.INVALID_REQUEST, message, body[:10_000])

    def describe_overflow(self) -> Failure:
        """Describe an empty response that stopped because the context window is full."""
        message = "The conversation fills the model's context window: there was no room for an answer."
        return Failure(FailureKind.CONTEXT_FULL, message, message)

    def describe_unexpected(self, cause: BaseException) -> Failure:
        """Describe an exception that no rule covers."""
        words = redacted_line(f"{type(cause).__name__}: {cause}", self._secrets)
        return Failure(FailureKind.UNKNOWN, f"The request to {self._host} failed: {words}", words, retryable=True)

    def _make_failure(self, status: int | None, headers: Mapping[str, str], body: Any) -> Failure:
        # Imported only after a failure, because compiling its many patterns takes time.
        from app.llm.failures.classification import classify_failure, parse_context_window, parse_retry_delay

        text = searchable_text(body)
        hint = parse_retry_delay(headers, text, time.time())
        kind, retryable = classify_failure(status, text, has_retry_delay=hint is not None)
        match headers.get("x-should-retry", "").lower():
            case "false":
                retryable = False
            case "true" if kind in (FailureKind.SERVER_ERROR, FailureKind.UNKNOWN):
                retryable = True
        return Failure(
            kind=kind,
            message=self._format_message(kind, status, redacted_line(find_error_message(body), self._secrets), hint),
            text=text,
            status=status,
            retryable=retryable,
            retry_after=hint,
            context_window=parse_context_window(text) if kind is FailureKind.CONTEXT_FULL else None,
        )

    def _format_message(self, kind: FailureKind, status: int | None, words: str, hint: float | None) -> str:
        said = f" ({status})" if status else ""
        said += f": {words}" if words else ""
        said += "" if said.endswith((".", "!", "?", "…")) else "."
        what, advice = self._explain(kind, status)
        if hint is not None and hint > _MAX_COUNTDOWN_SECONDS:
            retry_time = format_time_with_date_if_not_today(datetime.now() + timedelta(seconds=hint))
            advice = f"It takes requests again at {retry_time}."
        return f"{what}{said} {advice}".rstrip()

    def _explain(self, kind: FailureKind, status: int | None) -> tuple[str, str]:
        """Return what happened and what the user can do."""
        host = self._host
        if kind is FailureKind.AUTH and self._endpoint.api_key is None:
            variable = "ANTHROPIC_API_KEY" if host == "api.anthropic.com" else "OPENAI_API_KEY"
            return f"{host} wants an API key", f"Set {variable} or api_key in the config."
        if kind is FailureKind.AUTH and status == 403:
            return f"{host} does not allow this", "Check what the API key may do."
        if kind is FailureKind.INVALID_REQUEST and status in (404, 405):
            return f"There is no chat API at {self._url}", "Check the base URL (it often ends in /v1) and `wire`."
        if kind is FailureKind.CONTEXT_FULL and status == 413:
            # By a proxy, too, which does not know the model.
            return f"The request is larger than {host} accepts", ""
        model = redacted_line(self._endpoint.model, self._secrets)
        meanings = {
            FailureKind.AUTH: (
                f"{host} does not accept the API key",
                f"Check {self._endpoint.key_from.lstrip('$') or 'OPENAI_API_KEY or the config'}.",
            ),
            FailureKind.QUOTA: (f"The account at {host} has no quota left", "Check its plan and credit."),
            FailureKind.RATE_LIMITED: (f"{host} limits the rate of requests", "Wait a little, then continue."),
            FailureKind.MODEL_NOT_FOUND: (f"{host} has no model {model!r}", "Choose another with --model or /model."),
            FailureKind.CONTEXT_FULL: ("The conversation does not fit the model's context window", ""),
            FailureKind.TOOL_USE_FAILED: (f"{host} could not use the model's tool call", "Continue to try again."),
            FailureKind.INVALID_REQUEST: (f"{host} refuses the request", DOCTOR_ADVICE),
        }
        return meanings.get(kind, (f"{host} has a problem", "Try again in a moment."))


def _find_inner_status(data: Any) -> int | None:
    """Return the HTTP status inside an error object, as sent by OpenRouter and vLLM; None if there is none."""
    inner = data.get("error") if isinstance(data, Mapping) and isinstance(data.get("error"), Mapping) else data
    if not isinstance(inner, Mapping):
        return None
    for key in ("code", "status", "status_code"):
        value = inner.get(key)
        if isinstance(value, int | str) and re.fullmatch("[45][0-9][0-9]", str(value)):
            return int(value)
    return None


def _displayed_host_and_url(base_url: str) -> tuple[str, str]:
    """Return host with port, and the whole URL, both without user, password and query."""
    try:
        parts = urlsplit(base_url)
    except ValueError:
        return redacted_line(base_url), redacted_line(base_url)
    host = redacted_line(parts.netloc.rpartition("@")[2])
    shown = f"{parts.scheme}://{host}{parts.path}" if host else base_url.partition("?")[0]
    return host or redacted_line(shown), redacted_line(shown)


def exception_chain(cause: BaseException) -> Iterator[BaseException]:
    """Yield an exception, then the exceptions that caused it, the innermost last."""
    pending, seen = [cause], set[int]()
    while pending:
        link = pending.pop()
        if id(link) in seen:
            continue
        seen.add(id(link))
        yield link
        if isinstance(link, BaseExceptionGroup):
            pending.extend(link.exceptions)
        if (deeper := link.__cause__ or link.__context__) is not None:
            pending.append(deeper)
