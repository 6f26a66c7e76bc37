"""HTTP errors: each is understood, told in one line that says what to do, and retried if that can help."""

import asyncio
import contextlib
import re
import socket
import ssl
from collections.abc import AsyncIterator
from itertools import islice
from typing import Any

import pytest
from pydantic import SecretStr

from app.copies import replace
from app.llm.capabilities.profiles import resolve_profile
from app.llm.client import ModelClient
from app.llm.failures.failures import ErrorToFailureTranslator, exception_chain, searchable_text
from app.llm.failures.request_errors import FailureKind, RequestError
from app.llm.transport import Timeouts
from app.llm.values.endpoint import EndpointProfile
from app.llm.values.requests_and_updates import Endpoint, Payload
from tests.wire.driving import BRISK, FAST, TOOLS, client_of, complete, failure_of, response, updates_of
from tests.wire.replies import CUT, STALL, Reply, Turn, document, error, stream
from tests.wire.server import WireServer

K = FailureKind


async def failure(server: WireServer, reply: Reply, **options: Any) -> RequestError:
    """The failure that this reply ends in, when it is all that the server has to say."""
    server.always(reply)
    caught = await failure_of(complete(server, **options))
    assert "\n" not in caught.message and len(caught.message) < 500
    return caught


@contextlib.asynccontextmanager
async def client_at(base_url: str, key: str = "", headers: Any = (), **options: Any) -> AsyncIterator[ModelClient]:
    endpoint = Endpoint(base_url, "m", SecretStr(key) if key else None, dict(headers))
    client = ModelClient(endpoint, EndpointProfile(), **{"retry": FAST, "timeouts": BRISK, **options})
    yield client
    await client.aclose()


async def failures_at(base_url: str, *more: Any, **options: Any) -> list[RequestError]:
    found = []
    async with client_at(base_url, *more, **options) as client:
        for ask in (updates_of(client), client.list_models()):
            caught = await failure_of(ask)
            found.append(caught)
    return found


ERRORS: dict[str, tuple[Any, ...]] = {
    "400": (error(400, "Bad thing"), K.INVALID_REQUEST, 1, "Bad thing"),
    "401": (error(401, "Wrong", code="invalid_api_key"), K.AUTH, 1, "API key"),
    "401 empty": (document("", status=401), K.AUTH, 1, "API key"),
    "402": (error(402, "Pay"), K.QUOTA, 1, "plan"),
    "403": (error(403, "Not in your country"), K.AUTH, 1, "country"),
    "404 model": (error(404, "The model `x` does not exist"), K.MODEL_NOT_FOUND, 1, "--model"),
    "ollama": (error(404, "model 'x' not found, try pulling it first"), K.MODEL_NOT_FOUND, 1, "x"),
    "400 model": (error(400, "x is not a valid model ID"), K.MODEL_NOT_FOUND, 1, "--model"),
    **{
        words: (error(404, words), K.MODEL_NOT_FOUND, 1, "Choose another with --model")
        for words in (
            "Not found the model kimi-k9 or Permission denied",
            "The API deployment for this resource does not exist.",
        )
    },
    **{
        words: (error(status, words), K.QUOTA, 1, words)
        for status, words in (
            (429, "you (bob) have reached your weekly usage limit, upgrade for higher limits"),
            (429, "Free usage exceeded, subscribe to Go"),
            (429, "Rate limit exceeded: free-models-per-day-high-balance."),
            (400, "Budget has been exceeded! Current cost: 10, Max budget: 5"),
            (401, "Insufficient balance. Manage your billing."),
        )
    },
    "404 page": (document("404 page not found", status=404), K.INVALID_REQUEST, 1, "/v1"),
    "404 path": (document({"detail": "Not Found"}, status=404), K.INVALID_REQUEST, 1, "/v1"),
    "405": (document({"detail": "Method Not Allowed"}, status=405), K.INVALID_REQUEST, 1, "/v1"),
    "408": (error(408, "Slow"), K.SERVER_ERROR, 6, "Slow"),
    "409": (error(409, "Busy"), K.SERVER_ERROR, 6, "Busy"),
    "413 empty": (document("", status=413), K.CONTEXT_FULL, 1, "is larger than"),
    "422 list": (
        document({"detail": [{"loc": ["body", "x"], "msg": "Field required"}]}, status=422),
        K.INVALID_REQUEST,
        1,
        "body.x: Field required",
    ),
    "425": (error(425, "Early"), K.SERVER_ERROR, 6, "Early"),
    "429": (error(429, "Slow down"), K.RATE_LIMITED, 6, "Slow down"),
    "429 empty": (document("", status=429), K.RATE_LIMITED, 6, "rate"),
    "429 that breaks off": (
        stream(b'{"error', CUT, status=429),
        K.RATE_LIMITED,
        6,
        "limits the rate of requests (429).",
    ),
    "401 that breaks off": (stream(b'{"error', CUT, status=401), K.AUTH, 1, "wants an API key (401)."),
    "401 in damaged gzip": (
        document(b"no gzip", status=401, headers={"content-encoding": "gzip"}),
        K.AUTH,
        1,
        "wants an API key (401).",
    ),
    "429 in br": (
        document(b"x", status=429, headers={"content-encoding": "br"}),
        K.RATE_LIMITED,
        6,
        "limits the rate of requests (429).",
    ),
    "429 quota": (error(429, "You exceeded your current quota", code="insufficient_quota"), K.QUOTA, 1, "plan"),
    "429 credit": (error(429, "Your credit balance is too low"), K.QUOTA, 1, "credit"),
    "400 credit": (error(400, "Your credit balance is too low"), K.QUOTA, 1, "credit"),
    "429 daily": (error(429, "Limit on requests per day (RPD): 50"), K.QUOTA, 1, "per day"),
    "bedrock": (error(429, "Too many tokens, please wait before trying again."), K.RATE_LIMITED, 6, "tokens"),
    "500": (document("<h1>Oops</h1>", status=500, content_type="text/html"), K.SERVER_ERROR, 6, "Oops"),
    "502": (document("<title>Bad gateway</title>", status=502), K.SERVER_ERROR, 6, "Bad gateway"),
    "503": (error(503, "Loading model"), K.SERVER_ERROR, 6, "Loading model"),
    "504": (document("", status=504), K.SERVER_ERROR, 6, "problem"),
    "529": (error(529, "Overloaded"), K.SERVER_ERROR, 6, "Overloaded"),
    "501": (error(501, "Not implemented"), K.SERVER_ERROR, 1, "Not implemented"),
    "418": (error(418, "Teapot"), K.INVALID_REQUEST, 1, "Teapot"),
    "do not retry": (error(500, "No", headers={"x-should-retry": "false"}), K.SERVER_ERROR, 1, "No"),
    "do retry": (error(501, "No", headers={"x-should-retry": "true"}), K.SERVER_ERROR, 6, "No"),
    "500 template": (error(500, "Failed to parse tool call arguments as JSON"), K.INVALID_REQUEST, 1, "parse"),
    "500 memory": (
        error(500, "model requires more system memory (7.5 GiB) than is available (5.2 GiB)"),
        K.INVALID_REQUEST,
        1,
        "refuses the request (500): model requires more system memory (7.5 GiB) than is available (5.2 GiB).",
    ),
    "a template's source": (
        error(
            400,
            "Unable to generate parser for this template. Automatic parser generation failed: \n------------\n"
            f"While executing CallExpression at line 1, column 226 in source:\n...{'{{ <b> }}' * 40}\n"
            f"{' ' * 43}^\nError: Jinja Exception: There is no tool role",
        ),
        K.INVALID_REQUEST,
        1,
        "parser generation failed: Jinja Exception: There is no tool role",
    ),
    "gemini list": (
        document([{"error": {"code": 400, "message": "API key not valid."}}], status=400),
        K.AUTH,
        1,
        "API key not valid",
    ),
    "string": (document({"error": "plain words"}, status=400), K.INVALID_REQUEST, 1, "plain words"),
    "no words": (document({"error": {}}, status=400), K.INVALID_REQUEST, 1, "refuses"),
    "escapes": (document("\x00\x1b[31mred\u202e", status=400), K.INVALID_REQUEST, 1, "[31mred"),
    "openrouter nested": (
        error(
            400,
            "Provider returned error",
            metadata={"raw": '{"object":"error","message":"Temperature is hot"}', "provider_name": "Mistral"},
        ),
        K.INVALID_REQUEST,
        1,
        "Temperature is hot",
    ),
    "groq under none": (
        error(400, "Tool choice is none, but model called a tool", code="tool_use_failed"),
        K.TOOL_USE_FAILED,
        1,
        "tool call",
    ),
    "groq": (error(400, "Failed to call a function.", code="tool_use_failed"), K.TOOL_USE_FAILED, 4, "tool call"),
    **{
        f"429 {words[:20]}": (error(429, words), K.RATE_LIMITED, 6, words)
        for words in (
            "Rate limit reached: maximum context length is not the problem",
            "Too many requests; reduce the length of the messages or wait",
            "ThrottlingException: Too many tokens, please wait before trying again.",
        )
    },
    "a full context in the stream": (
        stream({"error": {"message": "Context length exceeded", "code": 400}}),
        K.CONTEXT_FULL,
        1,
        "ontext",
    ),
    "refused in the stream": (
        stream({"error": {"message": "No such thing", "type": "invalid_request_error"}}),
        K.INVALID_REQUEST,
        1,
        "thing",
    ),
    "MiniMax's limit": (
        document({"choices": None, "base_resp": {"status_code": 2013, "status_msg": "invalid params, no"}}),
        K.INVALID_REQUEST,
        1,
        "invalid params, no",
    ),
    "MiniMax's key": (
        document({"base_resp": {"status_code": 1004, "status_msg": "login fail: Please carry the API key"}}),
        K.AUTH,
        1,
        "login fail",
    ),
    "an unknown format": (
        document({"errors": [{"code": 7003, "description": "Could not route", "input": "secret"}]}, status=400),
        K.INVALID_REQUEST,
        1,
        "(400): Could not route. `signoff",
    ),
    "an echo of the request": (
        document(
            {"detail": [{"loc": ["body"], "msg": "Bad", "input": "Jinja: tools are not supported"}]}, status=422
        ),
        K.INVALID_REQUEST,
        1,
        "Bad",
    ),
}


@pytest.mark.parametrize(("reply", "kind", "sends", "words"), ERRORS.values(), ids=list(ERRORS))
async def test_http_errors_have_a_kind_a_message_and_their_retries(
    server: WireServer, reply: Reply, kind: FailureKind, sends: int, words: str
) -> None:
    failed = await failure(server, reply)
    assert (failed.kind, len(server.requests)) == (kind, sends)
    assert words in failed.message
    assert not re.search(r"[\x00-\x1f\x7f\u202e]", failed.message)


CONTEXT_FULL: list[tuple[int, str, dict[str, Any], int | None]] = [
    (400, "Your input exceeds the context window of this model.", {"code": "context_length_exceeded"}, None),
    (400, "This model's maximum context length is 8192 tokens. However, you requested 9000.", {}, 8192),
    (400, "prompt is too long: 210,000 tokens > 200,000 maximum", {}, 200000),
    (400, "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).", {}, 1048576),
    (413, "Please reduce the length of the messages or completion.", {}, None),
    (400, "the request exceeds the available size", {"type": "exceed_context_size_error", "n_ctx": 4096}, 4096),
    (
        400,
        "Trying to keep the first 5000 tokens when context the overflows. However, the model is loaded with context "
        "length of only 4096 tokens, which is not enough.",
        {},
        4096,
    ),
    (400, "This model's maximum prompt length is 131072 but the request contains 537812 tokens.", {}, 131072),
    (400, "Input length 131393 exceeds the maximum allowed input length of 131040 tokens.", {}, 131040),
    (500, "Requested input length 99009 exceeds maximum input length 8192", {}, 8192),
    (400, "Input length 203743 exceeds the maximum length 202752", {}, 202752),
    (500, "The decoder prompt (length 66501) is longer than the maximum model length of 65536.", {}, 65536),
    (422, "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 32512. Given: 9 ...", {}, 32512),
    (400, "invalid params, context window exceeds limit (2013)", {}, None),
    (400, "prompt too long; exceeded max context length by 12 tokens", {}, None),
    (400, "Prompt exceeds max length", {"code": "1261"}, None),
    (400, "Prompt too long", {"code": "1261"}, None),
    (400, "tokens in request more than max tokens allowed", {"code": "1210"}, None),
    (400, "Prompt has 256468 tokens, but the configured context size is 256,000 tokens", {}, 256000),
    (400, "Requested tokens (9000) exceed context window of 8192", {}, 8192),
    (400, "Prompt contains 40000 tokens, too large for model with 32768 maximum context length", {}, 32768),
    (500, "The input (9000 tokens) is longer than the model's context length (8192 tokens).", {}, 8192),
    (429, "Request too large for gpt-x on tokens per min (TPM): Limit 30000", {"code": "rate_limit"}, None),
    (400, "Invalid request: Your request exceeded model token limit: 131072", {}, 131072),
    (400, "litellm.ContextWindowExceededError: too much", {}, None),
    (400, "Range of input length should be [1, 30720]", {}, None),
    (400, "maximum context length is 512 tokens", {}, None),
    (400, "maximum context length is 4,, tokens", {}, None),
]


@pytest.mark.parametrize(("status", "words", "more", "window"), CONTEXT_FULL)
async def test_a_full_context_is_recognised_and_its_size_learned(
    server: WireServer, status: int, words: str, more: dict[str, Any], window: int | None
) -> None:
    server.always(document({"error": {"message": words, **more}}, status=status))
    async with client_of(server) as client:
        caught = await failure_of(updates_of(client))
        assert client.profile.context_window == window
    assert (caught.kind, caught.context_window) == (FailureKind.CONTEXT_FULL, window)
    assert len(server.requests) == 1


async def test_no_message_contains_the_key(server: WireServer) -> None:
    key, token = "sk-proj-secret-0123456789", "header-secret-value"
    echo = f"Incorrect API key provided: {key} {token} Bearer {key}. Also sk-other-9876543210abc."
    async with client_at(server.base_url, key, {"x-token": token}) as client:
        for reply in (error(401, echo), error(500, echo), document(f"<title>{echo}</title>", status=400)):
            server.always(reply)
            caught = await failure_of(updates_of(client))
            for secret in (key, token, "sk-other"):
                assert secret not in caught.message and secret not in str(caught)
            assert "***" in caught.message


@pytest.mark.parametrize("key", ["sekrit value-1234", "sekrit\nvalue-1234", "sekrit-ключ-1234", "\tsekrit-1234 \n"])
async def test_a_key_that_is_no_valid_header_is_not_in_the_message(server: WireServer, key: str) -> None:
    server.require_key("sekrit-1234")
    server.always(Turn("Hi"))
    async with client_at(server.base_url, key) as client:
        try:
            assert response(await updates_of(client)).text == "Hi"
            assert key.strip() == "sekrit-1234"
        except RequestError as failed:
            assert "sekrit" not in failed.message and "1234" not in failed.message


WITH_SECRETS = "http://me:sekrit@127.0.0.1:9/v1?key=hidden-too"
WITHOUT = "http://127.0.0.1:9/v1"


async def test_a_password_in_the_url_is_not_in_the_message() -> None:
    """Three layers keep it out; the test below sees each of them by itself."""
    for failed in await failures_at(WITH_SECRETS):
        assert WITHOUT in failed.message
        assert "sekrit" not in failed.message and "hidden" not in failed.message


def test_each_layer_removes_a_password_from_the_address_and_from_error_texts() -> None:
    endpoint = Endpoint(WITH_SECRETS, "m")
    assert endpoint.base_url == WITHOUT
    assert "sekrit" not in repr(endpoint) and "hidden" not in repr(endpoint)
    reader = ErrorToFailureTranslator(endpoint)
    words = f"no way to {WITH_SECRETS}, by bWU6c2Vrcml0"
    for failed in (
        reader.describe_response(500, {}, words),
        reader.describe_response(307, {"location": WITH_SECRETS}, ""),
        reader.describe_stream_error({"error": {"message": words}}),
        reader.describe_unreachable(OSError(words)),
        reader.describe_unreachable(ssl.SSLCertVerificationError(words)),
        reader.describe_broken_response("broke off", words),
        reader.describe_non_stream(words),
        reader.describe_unexpected(ValueError(words)),
    ):
        assert "***" in failed.message
        assert not re.search("sekrit|hidden|bWU6c2Vrcml0", failed.message)
    unaware = Endpoint(WITHOUT, "m")
    # It knows of no secret, so that no text is searched for one.
    object.__setattr__(unaware, "base_url", WITH_SECRETS)
    reader = ErrorToFailureTranslator(unaware)
    for failed in (
        reader.describe_unreachable(ConnectionRefusedError()),
        reader.describe_unreachable(socket.gaierror("unknown")),
        reader.describe_unusable_address(ValueError("broken")),
        reader.describe_connect_timeout(1),
        reader.describe_silence(1, "the response"),
    ):
        assert "127.0.0.1:9" in failed.message
        assert "sekrit" not in failed.message and "hidden" not in failed.message


async def test_a_redirect_is_reported_and_not_followed(server: WireServer) -> None:
    elsewhere = {"location": "https://elsewhere.example/v1"}
    failed = await failure(server, document("", status=307, headers=elsewhere))
    assert "redirects to https://elsewhere.example/v1" in failed.message
    assert len(server.requests) == 1


async def test_requests_to_this_machine_use_no_proxy(server: WireServer, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    server.always(Turn("Hi"))
    assert (await complete(server)).text == "Hi"
    failed, _ = await failures_at("http://127.0.0.1:1/v1")
    assert "Nothing answers at http://127.0.0.1:1/v1. Is the server running?" in failed.message


async def test_a_missing_key_and_a_wrong_key_have_different_messages(server: WireServer) -> None:
    server.require_key("right")
    assert "wants an API key" in (await failure(server, error(500, ""))).message
    async with client_at(server.base_url, "wrong-key") as client:
        await failure_of(updates_of(client), "does not accept the API key")
        server.always(error(403, "Not in your country"))
        server.require_key("wrong-key")
        words = r"does not allow this \(403\): Not in your country. Check what the API key"
        await failure_of(updates_of(client), words)


async def test_only_configured_keys_and_headers_are_sent(server: WireServer, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID", "OPENAI_ADMIN_KEY"):
        monkeypatch.setenv(name, "secret-of-another-host")
    server.always(Turn("Hi"))
    async with client_of(server) as client:
        await updates_of(client)
        await client.list_models()
    for request in (*server.requests, *server.visits):
        assert "authorization" not in request.headers
        assert "secret-of-another-host" not in str(request.headers)
    async with client_at(server.base_url, "", {"Authorization": "Basic abc", "x-team": "red"}) as client:
        await updates_of(client)
    assert (server.last.headers["authorization"], server.last.headers["x-team"]) == ("Basic abc", "red")


@pytest.mark.parametrize(
    ("base_url", "words"),
    [
        ("http://127.0.0.1:9/v1", "Is the server running?"),
        ("http://no-such-host.invalid/v1", "no host no-such-host.invalid"),
        ("ftp://127.0.0.1/v1", "ftp:// is not spoken here; write http:// or https://"),
        ("nonsense", "'nonsense' is not a usable base URL: it lacks http:// or https://"),
        ("not a url", "is not a usable base URL: it has a space in it; write it as in https://host/v1"),
        ("localhost:1/v1", "write http://localhost:1/v1"),
        ("http://127.0.0.1:99999/v1", "port 99999 does not exist"),
        ("http://", "names no host"),
        ("http://a b/v1", "names no host"),
        ("http://[::1/v1", "not a usable base URL"),
        ("http://127.0.0.1:9/v1\x01", "is not a usable base URL: Invalid non-printable ASCII character"),
    ],
)
async def test_an_unreachable_address_is_explained(base_url: str, words: str) -> None:
    for failed in await failures_at(base_url):
        assert words in failed.message


async def test_https_to_a_server_without_tls_is_explained_and_not_retried() -> None:
    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n")
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(refuse, "127.0.0.1", 0) as plain:
        address = f"https://127.0.0.1:{plain.sockets[0].getsockname()[1]}/v1"
        for failed in await failures_at(address):
            assert failed.message == f"{address} does not speak TLS. Check its scheme and port."


@pytest.fixture
def unproxied(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """An environment that names no proxy, for tests that have it name one."""
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    return monkeypatch


PROXIED = "the proxy of the environment for nowhere.invalid"
UNUSABLE = f"{PROXIED[4:]} cannot be used"
PROXIES: list[tuple[dict[str, str], str]] = [
    ({"HTTPS_PROXY": "socks5://127.0.0.1:9"}, f"{UNUSABLE}: socks5:// is not spoken here; write http:// or https://"),
    ({"HTTPS_PROXY": "gopher://127.0.0.1:9"}, f"{UNUSABLE}: gopher:// is not spoken here"),
    ({"HTTPS_PROXY": "127.0.0.1:99999"}, f"{UNUSABLE}: port 99999 does not exist"),
    ({"HTTPS_PROXY": "http://me:secret@"}, f"{UNUSABLE}: it names no host; write it as in http://host:8080"),
    ({"HTTPS_PROXY": "http://[::1"}, f"{UNUSABLE}: Invalid IPv6 URL"),
    ({"HTTP_PROXY": "gopher://127.0.0.1:9"}, "cannot be used: it has to be http:// or https://"),
    ({"https_proxy": "http://me:secret@127.0.0.1:9"}, f"Nothing answers at 127.0.0.1:9, {PROXIED}. Is"),
    ({"all_proxy": "http://me:secret@127.0.0.1:9"}, f"Nothing answers at 127.0.0.1:9, {PROXIED}. Is"),
    ({"https_proxy": "http://no-proxy.invalid:80"}, f"There is no host no-proxy.invalid:80, {PROXIED}."),
    ({"all_proxy": "http://no-proxy.invalid:80"}, f"There is no host no-proxy.invalid:80, {PROXIED}."),
    ({"HTTPS_PROXY": "http://127.0.0.1:9", "NO_PROXY": "nowhere.invalid"}, "There is no host nowhere.invalid. Check"),
    ({"HTTPS_PROXY": "http://127.0.0.1:9", "NO_PROXY": "*"}, "There is no host nowhere.invalid. Check the base URL"),
]


@pytest.mark.parametrize(("environment", "words"), PROXIES)
async def test_a_proxy_that_cannot_be_used_is_named(
    environment: dict[str, str], words: str, unproxied: pytest.MonkeyPatch
) -> None:
    for name, value in environment.items():
        unproxied.setenv(name, value)
    for failed in await failures_at("https://nowhere.invalid/v1"):
        assert words in failed.message and "secret" not in failed.message
        assert ("HTTPS_PROXY" in failed.message) == ("proxy" in words or "HTTP_PROXY" in environment)
        assert (failed.kind is FailureKind.INVALID_REQUEST) == ("cannot be used" in words), (
            "to try again is of no use"
        )


async def test_a_proxy_that_refuses_is_named(server: WireServer, unproxied: pytest.MonkeyPatch) -> None:
    # What listens there is no proxy: it says no to CONNECT.
    unproxied.setenv("HTTPS_PROXY", server.base_url.removesuffix("/v1"))
    failed, _ = await failures_at("https://nowhere.invalid/v1")
    assert re.search(r"connection to 127.0.0.1:\d+, the proxy .* for nowhere.invalid failed", failed.message)


@pytest.mark.parametrize(
    ("reason", "advice"),
    [
        ("self-signed certificate", "SSL_CERT_FILE"),
        ("certificate has expired", "those who run it"),
        ("certificate is not yet valid", "clock"),
        ("Hostname mismatch, certificate is not valid for 'here.example'.", "base URL"),
        ("IP address mismatch, certificate is not valid for '10.0.0.1'.", "base URL"),
    ],
)
def test_an_untrusted_certificate_is_not_reported_as_a_missing_host(reason: str, advice: str) -> None:
    reader = ErrorToFailureTranslator(Endpoint("https://here.example/v1", "m"))
    refused = ConnectionError("Connection error.")
    refused.__cause__ = ssl.SSLCertVerificationError(1, f"certificate verify failed: {reason} (_ssl.c:1006)")
    refused.__cause__.verify_message = reason
    failed = reader.describe_unreachable(refused)
    assert f"TLS certificate that is not trusted here ({reason.rstrip('.')}). " in failed.message
    assert advice in failed.message and not failed.retryable
    assert ("SSL_CERT_FILE" in failed.message) == (advice == "SSL_CERT_FILE")
    failed = reader.describe_unreachable(OSError("Server disconnected."))
    assert failed.message == "The connection to here.example failed: Server disconnected. Try again."


def test_a_circular_exception_chain_is_followed_once() -> None:
    one, other = ValueError("one"), ValueError("other")
    one.__cause__, other.__context__ = other, one
    assert list(islice(exception_chain(one), 9)) == [one, other]


@pytest.mark.parametrize("deep", [80, 5_000])
async def test_a_deeply_nested_error_body_is_not_searched(server: WireServer, deep: int) -> None:
    failed = await failure(server, document('{"error":' * deep + '"hidden"' + "}" * deep, status=400))
    assert failed.kind is FailureKind.INVALID_REQUEST
    assert "hidden" not in failed.message or deep > 1000


def test_error_body_is_searched_to_a_bounded_depth() -> None:
    def nested(levels: int) -> Any:
        return {"a": nested(levels - 1)} if levels else "hidden"

    assert "hidden" in searchable_text(nested(10)) and "hidden" not in searchable_text(nested(20))


@pytest.mark.parametrize(
    ("key", "headers", "words"),
    [
        ("secret-1\nsecret-2", {}, "The API key has a line break in it"),
        ("secret\u2019s", {}, "The API key has a character in it that no header may have"),
        ("", {"x-team": "secret\r\nmore"}, "The header 'x-team' has a line break in it"),
        ("", {"x team": "secret"}, "'x team' cannot be the name of a header: write letters, digits and hyphens"),
    ],
)
async def test_invalid_headers_are_refused(server: WireServer, key: str, headers: dict[str, str], words: str) -> None:
    for failed in await failures_at(server.base_url, key, headers):
        assert words in failed.message
        assert "secret" not in failed.message and "Check the configuration" in failed.message
    assert not server.requests and not server.visits


async def test_secrets_of_an_address_are_sent_but_never_shown(server: WireServer) -> None:
    server.script([error(400, "No dXNlcjpzM2NyM3Q= s3cr3t t0k3n-of-mine")])
    url = server.base_url.replace("http://", "http://user:s3cr3t@") + "/?api-key=t0k3n-of-mine&api-version=7"
    endpoint = Endpoint(url, "m")
    assert endpoint.base_url == f"{server.base_url}/?api-version=7"
    cache: dict[str, dict[str, Any]] = {}
    client = ModelClient(endpoint, EndpointProfile(), timeouts=BRISK, cache=cache)
    caught = await failure_of(updates_of(client))
    server.script([error(400, "stream_options unknown"), Turn("Hi")])
    await updates_of(client)
    await client.aclose()
    (key,) = cache
    for seen in (caught.message, repr(endpoint), key):
        assert "s3cr3t" not in seen and "t0k3n" not in seen and "dXNlcjpzM2NyM3Q" not in seen
    for request in server.requests:
        path, _, query = request.path.partition("?")
        assert path == "/v1/chat/completions"
        assert sorted(query.split("&")) == ["api-key=t0k3n-of-mine", "api-version=7"]
        assert request.headers["authorization"] == "Basic dXNlcjpzM2NyM3Q="


async def test_https_to_a_plain_http_port_is_reported(server: WireServer) -> None:
    url = server.base_url.replace("http:", "https:")
    # The server waits for the rest of a request line, and the client for the server's half of the handshake.
    for failed in await failures_at(url, timeouts=replace(BRISK, connect=0.2)):
        assert failed.kind is FailureKind.UNREACHABLE


@pytest.mark.parametrize(
    "near", ["http://127.0.0.1:1/v1", "http://localhost/v1", "http://[::1]:8080/v1", "http://0.0.0.0:8000/v1"]
)
def test_a_local_server_has_longer_to_send_its_first_token(near: str) -> None:
    assert Timeouts.for_endpoint(Endpoint(near, "m")).first > Timeouts().first
    for far in ("https://api.example.com/v1", "http://10.0.0.7/v1", "http://localhost.example.com/v1"):
        assert Timeouts.for_endpoint(Endpoint(far, "m")) == Timeouts()


async def test_the_model_list_is_read_and_its_failure_reported(server: WireServer) -> None:
    server.models = ["a", "b"]
    async with client_of(server) as client:
        assert [model.id for model in await client.list_models()] == ["a", "b"]
        server.route("/v1/models", document({"models": [{"name": "c"}, {"id": 3}, "x"]}))
        assert [model.id for model in await client.list_models()] == ["c"]
        server.route("/v1/models", document("<html>", content_type="text/html"))
        await failure_of(client.list_models())
        server.route("/v1/models", Reply((STALL,)))
        async with client_of(server, timeouts=replace(BRISK, connect=0.1, write=0.1)) as impatient:
            await failure_of(impatient.list_models(), r"nothing for 0\.1 s while waiting for the list of models")
        server.route("/v1/models", error(401, "No"))
        caught = await failure_of(client.list_models())
        assert caught.kind is FailureKind.AUTH


@pytest.mark.parametrize(
    ("entry", "window"),
    [
        ({"context_length": 32_768}, 32_768),
        ({"context_length": 1_000_000, "top_provider": {"context_length": 131_072}}, 131_072),
        ({"max_model_len": 4096}, 4096),
        ({"meta": {"n_ctx_train": 40_960}}, 40_960),
        ({"max_context_length": 131_072, "loaded_context_length": 8192}, 8192),
        ({"context_window": 131_072}, 131_072),
        ({"context_length": "large"}, None),
        ({"context_length": 0}, None),
        ({"context_length": 512}, None),
        ({"context_length": True}, None),
        ({}, None),
    ],
)
async def test_the_model_list_names_the_window(server: WireServer, entry: dict[str, Any], window: int | None) -> None:
    other = {"id": "other", "context_length": 512}
    server.route("/v1/models", document({"data": [other, {"id": "test-model", **entry}]}))
    server.always(Turn("Hi"))
    cache: dict[str, dict[str, Any]] = {}
    async with client_of(server, cache=cache) as client:
        await updates_of(client)
        assert not server.visits, "what is short fits anywhere"
        long = Payload([{"role": "user", "content": "word " * 6_000}], TOOLS)
        for _ in range(2):
            await updates_of(client, lambda profile: long)
        assert client.profile.context_window == window
        assert len(server.visits) == 1
    assert resolve_profile(server.base_url, "test-model", cache=cache).context_window == window
    async with client_of(server, EndpointProfile(context_window=9)) as client:
        await client.list_models()
        assert client.profile.context_window == 9, "what the user or the server said goes over the list"


async def test_a_missing_model_list_is_requested_once(server: WireServer) -> None:
    server.route("/v1/models", error(404, "no"))
    server.always(Turn("Hi"))
    async with client_of(server) as client:
        for _ in range(2):
            await updates_of(client, lambda profile: Payload([{"role": "user", "content": "word " * 6_000}], TOOLS))
    assert len(server.visits) == 1
