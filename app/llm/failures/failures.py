"""From what went wrong to a `Failure`: what it means, and one line that says what to do about it."""

import re
import socket
import ssl
import time
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlsplit

from app.llm.failures.request_errors import COMPACT, Failure, FailureKind
from app.llm.failures.server_words import headline, one_line, parse_body, searchable
from app.llm.response.response_limits import ResponseTooLarge
from app.llm.values.address import fault_of, header_fault, host_of, proxy_for
from app.llm.values.types import Endpoint

_NAMED = "Check HTTPS_PROXY, HTTP_PROXY and ALL_PROXY."
"""Where the environment names proxies."""
_SHORT = 60.0
"""Seconds up to which a count-down says more than the time of day."""


def clock_time(moment: datetime) -> str:
    """The local time of day, with the date if that is not today's."""
    return f"{moment:%H:%M}" if moment.date() == datetime.now().date() else f"{moment:%H:%M on %d %B}"


class FailureReader:
    """Reads failures of one endpoint; nothing it returns contains the endpoint's key."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._host, self._where = _shown(endpoint.base_url)
        secrets = [*endpoint.headers.values(), *endpoint.address.secrets]
        if endpoint.api_key is not None:
            secrets.append(endpoint.api_key.get_secret_value())
        # The parts too: a value with a line break in it comes back quoted.
        self._secrets = sorted({part for value in secrets for part in (value, *value.split())}, key=len, reverse=True)

    def response(self, status: int, headers: Mapping[str, str], body: str) -> Failure:
        """An HTTP response that is an error, or a redirection: not followed, as it would take the key along."""
        if 300 <= status < 400:
            target = one_line(headers.get("location", "elsewhere"), self._secrets)
            message = f"{self._host} redirects to {target} ({status}). Change the base URL if that is where it moved."
            return Failure(FailureKind.INVALID_REQUEST, message, message, status)
        return self._read(status, headers, parse_body(body))

    def in_stream(self, data: Any, headers: Mapping[str, str] | None = None) -> Failure:
        """An error object (or just its words) that came inside a stream, or with status 200."""
        return self._read(_inner_status(data), headers or {}, data)

    def unreachable(self, cause: BaseException) -> Failure:
        """No connection, or none that lasted until the response began."""
        links = list(chain(cause))
        words = one_line(next((str(link) for link in reversed(links) if str(link)), ""), self._secrets)
        proxy = self._proxy()
        if any(isinstance(link, ssl.SSLCertVerificationError) for link in links):
            message = (
                f"{self._host} has a TLS certificate that this machine does not trust ({words}). Set SSL_CERT_FILE."
            )
            return Failure(FailureKind.UNREACHABLE, message, words)
        if any(isinstance(link, socket.gaierror) for link in links):
            message = f"There is no host {self._host}. Check the base URL ({self._where}) and the network."
            if proxy:
                message = f"There is no host {proxy}. {_NAMED}"
            return Failure(FailureKind.UNREACHABLE, message, words, retryable=True)
        if any(isinstance(link, ConnectionRefusedError) for link in links):
            message = f"Nothing answers at {self._where}. Is the server running?"
            if proxy:
                message = f"Nothing answers at {proxy}. Is it running? {_NAMED}"
            return Failure(FailureKind.UNREACHABLE, message, words, retryable=True)
        message = f"The connection to {proxy or self._host} failed: {words or 'no reason given'}. Try again."
        return Failure(FailureKind.UNREACHABLE, message, words, retryable=True)

    def _proxy(self) -> str:
        """Who is connected to instead of the endpoint, as far as that may be shown; empty if nobody is."""
        proxy = host_of(proxy_for(self._endpoint.base_url))
        return f"{one_line(proxy)}, the proxy of the environment for {self._host}" if proxy else ""

    def unusable_settings(self) -> Failure | None:
        """What can be told of address, key and headers before anything is sent; None if all is well."""
        key = self._endpoint.api_key
        sent = [("The API key", key.get_secret_value().strip() if key is not None else "")]
        sent += [(f"The header {name!r}", value) for name, value in self._endpoint.headers.items()]
        fault = next((said for name, value in sent if (said := header_fault(name, value))), "")
        if wrong := fault_of(self._endpoint.base_url):
            fault = f"{self._endpoint.base_url!r} is not a usable base URL: {wrong}"
        elif (proxy := proxy_for(self._endpoint.base_url)) and (wrong := fault_of(proxy, "http://host:8080")):
            return self.unusable_proxy(wrong)
        if not fault:
            return None
        message = one_line(f"{fault}. Check the configuration and the environment.", self._secrets)
        return Failure(FailureKind.INVALID_REQUEST, message, message)

    def unusable_address(self, cause: BaseException) -> Failure:
        """The base URL is none, for a reason that only the HTTP library knows."""
        words = one_line(next((str(link) for link in reversed(list(chain(cause))) if str(link)), ""), self._secrets)
        message = f"{self._where!r} is not a usable base URL: {words.rstrip('.')}. Check the configuration."
        return Failure(FailureKind.INVALID_REQUEST, message, message)

    def unusable_proxy(self, fault: str) -> Failure:
        """The environment names a proxy that is none, or of a kind that the HTTP library does not take."""
        message = f"The proxy of the environment for {self._host} cannot be used: {one_line(fault)}. {_NAMED}"
        return Failure(FailureKind.INVALID_REQUEST, message, message)

    def not_connected(self, seconds: float) -> Failure:
        """Nobody takes the connection, and nobody refuses it."""
        message = f"{self._where} did not answer within {seconds:.3g} s. Check the base URL, the network and a proxy."
        return Failure(FailureKind.UNREACHABLE, message, message, retryable=True)

    def too_slow(self, seconds: float) -> Failure:
        """A response that comes, but never to its end."""
        message = f"{self._host} did not finish its response within {seconds:,.3g} s. Continue, or ask for less."
        return Failure(FailureKind.STREAM_BROKEN, message, message)

    def timed_out(self, seconds: float, waiting_for: str) -> Failure:
        """Silence for too long."""
        message = f"{self._host} sent nothing for {seconds:.3g} s while waiting for {waiting_for}. Try again."
        return Failure(FailureKind.STREAM_BROKEN, message, message, retryable=True)

    def broken(self, what: str, detail: str = "") -> Failure:
        """The response is damaged or ends too early."""
        words = one_line(detail, self._secrets)
        message = f"The response of {self._host} {what}{f' ({words})' if words else ''}. Try again."
        return Failure(FailureKind.STREAM_BROKEN, message, f"{what}\n{detail}", retryable=True)

    def too_large(self, endless: ResponseTooLarge) -> Failure:
        """What no model and no server in order sends; the same request would bring the same."""
        message = f"{self._host} sent {endless}; it was not read on. Check the server, or a proxy before it."
        return Failure(FailureKind.STREAM_BROKEN, message, message)

    def not_a_stream(self, body: str) -> Failure:
        """Status 200, but neither a stream nor a completion: most often the base URL leads to a web page."""
        words = one_line(headline(parse_body(body)), self._secrets)
        said = f" but “{words}”" if words else ""
        message = f"{self._host} answers with no model response{said}. Check the base URL (it often ends in /v1)."
        return Failure(FailureKind.INVALID_REQUEST, message, body[:10_000])

    def overflow(self) -> Failure:
        """The response stopped for length before it began."""
        message = f"The conversation fills the model's context window: there was no room for an answer. {COMPACT}"
        return Failure(FailureKind.CONTEXT_FULL, message, message)

    def unexpected(self, cause: BaseException) -> Failure:
        """Something that no rule covers."""
        words = one_line(f"{type(cause).__name__}: {cause}", self._secrets)
        return Failure(FailureKind.UNKNOWN, f"The request to {self._host} failed: {words}", words, retryable=True)

    def _read(self, status: int | None, headers: Mapping[str, str], body: Any) -> Failure:
        # Imported when something fails: their many patterns take their time to compile.
        from app.llm.failures.classification import classify, context_window, wait_hint

        text = searchable(body)
        hint = wait_hint(headers, text, time.time())
        kind, retryable = classify(status, text, hinted=hint is not None)
        match headers.get("x-should-retry", "").lower():
            case "false":
                retryable = False
            case "true" if kind in (FailureKind.SERVER_ERROR, FailureKind.UNKNOWN):
                retryable = True
        return Failure(
            kind=kind,
            message=self._message(kind, status, one_line(headline(body), self._secrets), hint),
            text=text,
            status=status,
            retryable=retryable,
            retry_after=hint,
            context_window=context_window(text) if kind is FailureKind.CONTEXT_FULL else None,
        )

    def _message(self, kind: FailureKind, status: int | None, words: str, hint: float | None) -> str:
        said = f" ({status})" if status else ""
        said += f": {words}" if words else ""
        said += "" if said.endswith((".", "!", "?", "…")) else "."
        what, advice = self._meaning(kind, status)
        if hint is not None and hint > _SHORT:
            advice = f"It takes requests again at {clock_time(datetime.now() + timedelta(seconds=hint))}."
        return f"{what}{said} {advice}"

    def _meaning(self, kind: FailureKind, status: int | None) -> tuple[str, str]:
        """What happened, and what to do."""
        host = self._host
        if kind is FailureKind.AUTH and self._endpoint.api_key is None:
            variable = "ANTHROPIC_API_KEY" if host == "api.anthropic.com" else "OPENAI_API_KEY"
            return f"{host} wants an API key", f"Set {variable} or api_key in the config."
        if kind is FailureKind.AUTH and status == 403:
            return f"{host} does not allow this", "Check what the API key may do."
        if kind is FailureKind.INVALID_REQUEST and status in (404, 405):
            return f"There is no chat API at {self._where}", "Check the base URL (it often ends in /v1) and `wire`."
        model = one_line(self._endpoint.model, self._secrets)
        meanings = {
            FailureKind.AUTH: (
                f"{host} does not accept the API key",
                f"Check {self._endpoint.key_from.lstrip('$') or 'OPENAI_API_KEY or the config'}.",
            ),
            FailureKind.QUOTA: (f"The account at {host} has no quota left", "Check its plan and credit."),
            FailureKind.RATE_LIMITED: (f"{host} limits the rate of requests", "Wait a little, then continue."),
            FailureKind.MODEL_NOT_FOUND: (f"{host} has no model {model!r}", "Choose another with --model or /model."),
            FailureKind.CONTEXT_FULL: ("The conversation does not fit the model's context window", COMPACT),
            FailureKind.TOOL_USE_FAILED: (f"{host} could not use the model's tool call", "Continue to try again."),
            FailureKind.INVALID_REQUEST: (f"{host} refuses the request", "`signoff doctor` shows what it takes."),
        }
        return meanings.get(kind, (f"{host} has a problem", "Try again in a moment."))


def _inner_status(data: Any) -> int | None:
    """The HTTP status that an error object names, as OpenRouter and vLLM do."""
    inner = data.get("error") if isinstance(data, Mapping) and isinstance(data.get("error"), Mapping) else data
    if not isinstance(inner, Mapping):
        return None
    for key in ("code", "status", "status_code"):
        value = inner.get(key)
        if isinstance(value, int | str) and re.fullmatch("[45][0-9][0-9]", str(value)):
            return int(value)
    return None


def _shown(base_url: str) -> tuple[str, str]:
    """Host with port, and the whole URL, both without user, password and query."""
    try:
        parts = urlsplit(base_url)
    except ValueError:
        return one_line(base_url), one_line(base_url)
    host = one_line(parts.netloc.rpartition("@")[2])
    shown = f"{parts.scheme}://{host}{parts.path}" if host else base_url.partition("?")[0]
    return host or one_line(shown), one_line(shown)


def chain(cause: BaseException) -> Iterator[BaseException]:
    """An exception and all that led to it, the innermost last: the SDK's own words are just "Connection error."."""
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
