"""HTTP errors: each is understood, told in one line that says what to do, and retried if that can help."""

import re
import socket
import ssl
from dataclasses import replace
from itertools import islice
from typing import Any

import pytest
from pydantic import SecretStr

from app.llm.capabilities.profiles import resolve_profile
from app.llm.client import ModelClient
from app.llm.failures.failures import FailureDescriber, exception_chain, searchable_text
from app.llm.failures.request_errors import FailureKind, RequestError
from app.llm.transport import Timeouts
from app.llm.values.endpoint import EndpointProfile
from app.llm.values.requests_and_updates import Endpoint, Payload, RetryScheduled
from tests.wire.driving import BRISK, FAST, TOOLS, client_of, complete, opening, response, updates_of
from tests.wire.replies import STALL, Reply, Turn, document, error, stream
from tests.wire.server import WireServer

K = FailureKind


async def failure(server: WireServer, reply: Reply, **options: Any) -> RequestError:
    """The failure that this reply ends in, when it is all that the server has to say."""
    server.always(reply)
    with pytest.raises(RequestError) as caught:
        await complete(server, **options)
    assert "\n" not in caught.value.message and len(caught.value.message) < 500
    return caught.value


@pytest.mark.parametrize(
    ("reply", "kind", "sends", "words"),
    [
        pytest.param(error(400, "Bad thing"), K.INVALID_REQUEST, 1, "Bad thing", id="400"),
        pytest.param(error(401, "Wrong", code="invalid_api_key"), K.AUTH, 1, "API key", id="401"),
        pytest.param(document("", status=401), K.AUTH, 1, "API key", id="401 empty"),
        pytest.param(error(402, "Pay"), K.QUOTA, 1, "plan", id="402"),
        pytest.param(error(403, "Not in your country"), K.AUTH, 1, "country", id="403"),
        pytest.param(error(404, "The model `x` does not exist"), K.MODEL_NOT_FOUND, 1, "--model", id="404 model"),
        pytest.param(error(404, "model 'x' not found, try pulling it first"), K.MODEL_NOT_FOUND, 1, "x", id="ollama"),
        pytest.param(error(400, "x is not a valid model ID"), K.MODEL_NOT_FOUND, 1, "--model", id="400 model"),
        pytest.param(document("404 page not found", status=404), K.INVALID_REQUEST, 1, "/v1", id="404 page"),
        pytest.param(document({"detail": "Not Found"}, status=404), K.INVALID_REQUEST, 1, "/v1", id="404 path"),
        pytest.param(document({"detail": "Method Not Allowed"}, status=405), K.INVALID_REQUEST, 1, "/v1", id="405"),
        pytest.param(error(408, "Slow"), K.SERVER_ERROR, 6, "Slow", id="408"),
        pytest.param(error(409, "Busy"), K.SERVER_ERROR, 6, "Busy", id="409"),
        pytest.param(document("", status=413), K.CONTEXT_FULL, 1, "ompact", id="413 empty"),
        pytest.param(
            document({"detail": [{"loc": ["body", "x"], "msg": "Field required"}]}, status=422),
            K.INVALID_REQUEST,
            1,
            "body.x: Field required",
            id="422 list",
        ),
        pytest.param(error(425, "Early"), K.SERVER_ERROR, 6, "Early", id="425"),
        pytest.param(error(429, "Slow down"), K.RATE_LIMITED, 6, "Slow down", id="429"),
        pytest.param(document("", status=429), K.RATE_LIMITED, 6, "rate", id="429 empty"),
        pytest.param(
            error(429, "You exceeded your current quota", code="insufficient_quota"),
            K.QUOTA,
            1,
            "plan",
            id="429 quota",
        ),
        pytest.param(error(429, "Your credit balance is too low"), K.QUOTA, 1, "credit", id="429 credit"),
        pytest.param(error(400, "Your credit balance is too low"), K.QUOTA, 1, "credit", id="400 credit"),
        pytest.param(error(429, "Limit on requests per day (RPD): 50"), K.QUOTA, 1, "per day", id="429 daily"),
        pytest.param(
            error(429, "Too many tokens, please wait before trying again."), K.RATE_LIMITED, 6, "tokens", id="bedrock"
        ),
        pytest.param(
            document("<h1>Oops</h1>", status=500, content_type="text/html"), K.SERVER_ERROR, 6, "Oops", id="500"
        ),
        pytest.param(document("<title>Bad gateway</title>", status=502), K.SERVER_ERROR, 6, "Bad gateway", id="502"),
        pytest.param(error(503, "Loading model"), K.SERVER_ERROR, 6, "Loading model", id="503"),
        pytest.param(document("", status=504), K.SERVER_ERROR, 6, "problem", id="504"),
        pytest.param(error(529, "Overloaded"), K.SERVER_ERROR, 6, "Overloaded", id="529"),
        pytest.param(error(501, "Not implemented"), K.SERVER_ERROR, 1, "Not implemented", id="501"),
        pytest.param(error(418, "Teapot"), K.INVALID_REQUEST, 1, "Teapot", id="418"),
        pytest.param(
            error(500, "No", headers={"x-should-retry": "false"}), K.SERVER_ERROR, 1, "No", id="do not retry"
        ),
        pytest.param(error(501, "No", headers={"x-should-retry": "true"}), K.SERVER_ERROR, 6, "No", id="do retry"),
        pytest.param(
            error(500, "Failed to parse tool call arguments as JSON"),
            K.INVALID_REQUEST,
            1,
            "parse",
            id="500 template",
        ),
        pytest.param(
            error(
                400,
                "Unable to generate parser for this template. Automatic parser generation failed: \n------------\n"
                f"While executing CallExpression at line 1, column 226 in source:\n...{'{{ <b> }}' * 40}\n"
                f"{' ' * 43}^\nError: Jinja Exception: There is no tool role",
            ),
            K.INVALID_REQUEST,
            1,
            "parser generation failed: Jinja Exception: There is no tool role",
            id="a template's source",
        ),
        pytest.param(
            document([{"error": {"code": 400, "message": "API key not valid."}}], status=400),
            K.AUTH,
            1,
            "API key not valid",
            id="gemini list",
        ),
        pytest.param(
            document({"error": "plain words"}, status=400), K.INVALID_REQUEST, 1, "plain words", id="string"
        ),
        pytest.param(document({"error": {}}, status=400), K.INVALID_REQUEST, 1, "refuses", id="no words"),
        pytest.param(document("\x00\x1b[31mred\u202e", status=400), K.INVALID_REQUEST, 1, "[31mred", id="escapes"),
        pytest.param(
            error(
                400,
                "Provider returned error",
                metadata={"raw": '{"object":"error","message":"Temperature is hot"}', "provider_name": "Mistral"},
            ),
            K.INVALID_REQUEST,
            1,
            "Temperature is hot",
            id="openrouter nested",
        ),
        pytest.param(
            error(400, "Tool choice is none, but model called a tool", code="tool_use_failed"),
            K.TOOL_USE_FAILED,
            1,
            "tool call",
            id="groq under none",
        ),
        pytest.param(
            error(400, "Failed to call a function.", code="tool_use_failed"),
            K.TOOL_USE_FAILED,
            4,
            "tool call",
            id="groq",
        ),
    ],
)
async def test_http_errors_have_a_kind_a_message_and_their_retries(
    server: WireServer, reply: Reply, kind: FailureKind, sends: int, words: str
) -> None:
    failed = await failure(server, reply)
    assert (failed.kind, len(server.requests)) == (kind, sends)
    assert words in failed.message
    assert not re.search(r"[\x00-\x1f\x7f\u202e]", failed.message)


CONTEXT_FULL = [
    (
        400,
        {"code": "context_length_exceeded", "message": "Your input exceeds the context window of this model."},
        None,
    ),
    (400, {"message": "This model's maximum context length is 8192 tokens. However, you requested 9000."}, 8192),
    (400, {"message": "prompt is too long: 210,000 tokens > 200,000 maximum"}, 200000),
    (
        400,
        {"message": "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576)."},
        1048576,
    ),
    (413, {"message": "Please reduce the length of the messages or completion."}, None),
    (
        400,
        {
            "type": "exceed_context_size_error",
            "message": "the request exceeds the available context size",
            "n_ctx": 4096,
        },
        4096,
    ),
    (400, {"message": "Trying to keep the first 5000 tokens when greater than the context length"}, None),
    (400, {"message": "Prompt contains 40000 tokens, too large for model with 32768 maximum context length"}, 32768),
    (500, {"message": "The input (9000 tokens) is longer than the model's context length (8192 tokens)."}, None),
    (
        429,
        {"message": "Request too large for gpt-x on tokens per min (TPM): Limit 30000", "code": "rate_limit"},
        None,
    ),
    (400, {"message": "Invalid request: Your request exceeded model token limit: 131072"}, 131072),
    (400, {"message": "litellm.ContextWindowExceededError: too much"}, None),
    (400, {"message": "Range of input length should be [1, 30720]"}, None),
    (400, {"message": "maximum context length is 512 tokens"}, None),
    (400, {"message": "maximum context length is 4,, tokens"}, None),
]


@pytest.mark.parametrize(("status", "body", "window"), CONTEXT_FULL)
async def test_a_full_context_is_recognised_with_its_size(
    server: WireServer, status: int, body: dict[str, Any], window: int | None
) -> None:
    failed = await failure(server, document({"error": body}, status=status))
    assert failed.kind is FailureKind.CONTEXT_FULL
    assert failed.context_window == window
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    "words",
    [
        "Rate limit reached: maximum context length is not the problem",
        "Too many requests; reduce the length of the messages or wait",
        "ThrottlingException: Too many tokens, please wait before trying again.",
    ],
)
async def test_a_rate_limit_is_not_taken_for_a_full_context(server: WireServer, words: str) -> None:
    assert (await failure(server, error(429, words))).kind is FailureKind.RATE_LIMITED


async def test_a_full_context_inside_the_stream_is_recognised(server: WireServer) -> None:
    failed = await failure(server, stream({"error": {"message": "Context length exceeded", "code": 400}}))
    assert failed.kind is FailureKind.CONTEXT_FULL


async def test_a_request_refused_inside_the_stream_is_not_retried(server: WireServer) -> None:
    failed = await failure(server, stream({"error": {"message": "No such thing", "type": "invalid_request_error"}}))
    assert (failed.kind, len(server.requests)) == (FailureKind.INVALID_REQUEST, 1)


async def test_the_context_window_in_an_error_is_learned(server: WireServer) -> None:
    server.always(error(400, "This model's maximum context length is 8192 tokens."))
    async with client_of(server) as client:
        with pytest.raises(RequestError):
            await updates_of(client)
        assert client.profile.context_window == 8192


async def test_no_message_contains_the_key(server: WireServer) -> None:
    key, token = "sk-proj-secret-0123456789", "header-secret-value"
    endpoint = Endpoint(server.base_url, "test-model", SecretStr(key), {"x-token": token})
    echo = f"Incorrect API key provided: {key} {token} Bearer {key}. Also sk-other-9876543210abc."
    client = ModelClient(endpoint, EndpointProfile(), retry=FAST, timeouts=BRISK)
    for reply in (error(401, echo), error(500, echo), document(f"<title>{echo}</title>", status=400)):
        server.always(reply)
        with pytest.raises(RequestError) as caught:
            await updates_of(client)
        chain: BaseException | None = caught.value
        for secret in (key, token, "sk-other"):
            assert secret not in caught.value.message and secret not in str(chain)
        assert "***" in caught.value.message
    await client.aclose()


@pytest.mark.parametrize("key", ["sekrit value-1234", "sekrit\nvalue-1234", "sekrit-ключ-1234", "\tsekrit-1234 \n"])
async def test_a_key_that_is_no_valid_header_is_not_in_the_message(server: WireServer, key: str) -> None:
    server.require_key("sekrit-1234")
    server.always(Turn("Hi"))
    client = ModelClient(
        Endpoint(server.base_url, "m", SecretStr(key)), EndpointProfile(), retry=FAST, timeouts=BRISK
    )
    try:
        assert response(await updates_of(client)).text == "Hi"
        assert key.strip() == "sekrit-1234"
    except RequestError as failed:
        assert "sekrit" not in failed.message and "1234" not in failed.message
    await client.aclose()


WITH_SECRETS = "http://me:sekrit@127.0.0.1:9/v1?key=hidden-too"
WITHOUT = "http://127.0.0.1:9/v1"


async def test_a_password_in_the_url_is_not_in_the_message() -> None:
    """Three layers keep it out; the tests below see each of them by itself."""
    client = ModelClient(Endpoint(WITH_SECRETS, "m"), EndpointProfile(), retry=FAST, timeouts=BRISK)
    with pytest.raises(RequestError) as caught:
        await updates_of(client)
    assert WITHOUT in caught.value.message
    assert "sekrit" not in caught.value.message and "hidden" not in caught.value.message
    await client.aclose()


def test_an_endpoint_has_no_password_in_its_address() -> None:
    endpoint = Endpoint(WITH_SECRETS, "m")
    assert endpoint.base_url == WITHOUT
    assert "sekrit" not in repr(endpoint) and "hidden" not in repr(endpoint)


def test_a_failure_removes_a_password_from_the_address() -> None:
    endpoint = Endpoint(WITHOUT, "m")
    # It knows of no secret, so that no text is searched for one.
    object.__setattr__(endpoint, "base_url", WITH_SECRETS)
    reader = FailureDescriber(endpoint)
    for failed in (
        reader.describe_unreachable(ConnectionRefusedError()),
        reader.describe_unreachable(socket.gaierror("unknown")),
        reader.describe_unusable_address(ValueError("broken")),
        reader.describe_connect_timeout(1),
        reader.describe_silence(1, "the response"),
    ):
        assert "127.0.0.1:9" in failed.message
        assert "sekrit" not in failed.message and "hidden" not in failed.message


def test_a_failure_removes_a_password_from_other_error_texts() -> None:
    reader = FailureDescriber(Endpoint(WITH_SECRETS, "m"))
    words = f"no way to {WITH_SECRETS}, by bWU6c2Vrcml0"
    for failed in (
        reader.describe_response(500, {}, words),
        reader.describe_response(307, {"location": WITH_SECRETS}, ""),
        reader.describe_stream_error({"error": {"message": words}}, {}),
        reader.describe_unreachable(OSError(words)),
        reader.describe_unreachable(ssl.SSLCertVerificationError(words)),
        reader.describe_broken_response("broke off", words),
        reader.describe_non_stream(words),
        reader.describe_unexpected(ValueError(words)),
    ):
        assert "***" in failed.message
        assert not re.search("sekrit|hidden|bWU6c2Vrcml0", failed.message)


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
    client = ModelClient(Endpoint("http://127.0.0.1:1/v1", "m"), EndpointProfile(), retry=FAST, timeouts=BRISK)
    with pytest.raises(RequestError, match=r"Nothing answers at http://127.0.0.1:1/v1\. Is the server running\?"):
        await updates_of(client)
    await client.aclose()


async def test_echoed_request_text_does_not_classify_a_failure(server: WireServer) -> None:
    echoed = [
        {"loc": ["body", "x"], "msg": "Bad value", "input": "Jinja: tools are not supported, insufficient_quota"}
    ]
    failed = await failure(server, document({"detail": echoed}, status=422))
    assert failed.kind is FailureKind.INVALID_REQUEST
    assert len(server.requests) == 1


async def test_a_missing_key_and_a_wrong_key_have_different_messages(server: WireServer) -> None:
    server.require_key("right")
    assert "wants an API key" in (await failure(server, error(500, ""))).message
    client = ModelClient(Endpoint(server.base_url, "m", SecretStr("wrong-key")), EndpointProfile(), timeouts=BRISK)
    with pytest.raises(RequestError, match="does not accept the API key"):
        await updates_of(client)
    server.always(error(403, "Not in your country"))
    server.require_key("wrong-key")
    with pytest.raises(
        RequestError, match=r"does not allow this \(403\): Not in your country. Check what the API key"
    ):
        await updates_of(client)
    await client.aclose()


async def test_without_a_key_none_is_taken_from_the_environment(
    server: WireServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID", "OPENAI_ADMIN_KEY"):
        monkeypatch.setenv(name, "secret-of-another-host")
    server.always(Turn("Hi"))
    async with client_of(server) as client:
        await updates_of(client)
        await client.model_ids()
    for request in (*server.requests, *server.visits):
        assert "authorization" not in request.headers
        assert "secret-of-another-host" not in str(request.headers)


async def test_headers_of_the_endpoint_are_sent(server: WireServer) -> None:
    server.always(Turn("Hi"))
    endpoint = Endpoint(server.base_url, "m", None, {"Authorization": "Basic abc", "x-team": "red"})
    client = ModelClient(endpoint, EndpointProfile(), timeouts=BRISK)
    await updates_of(client)
    await client.aclose()
    assert server.last.headers["authorization"] == "Basic abc"
    assert server.last.headers["x-team"] == "red"


@pytest.mark.parametrize(
    ("base_url", "words"),
    [
        ("http://127.0.0.1:9/v1", "Is the server running?"),
        ("http://no-such-host.invalid/v1", "no host no-such-host.invalid"),
        ("ftp://127.0.0.1/v1", "ftp:// is not spoken here; write http:// or https://"),
        ("nonsense", "'nonsense' is not a usable base URL: it lacks http:// or https://"),
        ("localhost:1/v1", "write http://localhost:1/v1"),
        ("http://127.0.0.1:99999/v1", "port 99999 does not exist"),
        ("http://", "names no host"),
        ("http://a b/v1", "names no host"),
        ("http://[::1/v1", "not a usable base URL"),
        ("http://127.0.0.1:9/v1\x01", "is not a usable base URL: Invalid non-printable ASCII character"),
    ],
)
async def test_an_unreachable_address_is_explained(base_url: str, words: str) -> None:
    client = ModelClient(Endpoint(base_url, "m"), EndpointProfile(), retry=FAST, timeouts=BRISK)
    for ask in (updates_of(client), client.model_ids()):
        with pytest.raises(RequestError) as caught:
            await ask
        assert words in caught.value.message
    await client.aclose()


@pytest.fixture
def unproxied(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """An environment that names no proxy, for tests that have it name one."""
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    return monkeypatch


@pytest.mark.parametrize(
    ("proxy", "why"),
    [
        ("socks5://127.0.0.1:9", "socks5:// is not spoken here; write http:// or https://"),
        ("gopher://127.0.0.1:9", "gopher:// is not spoken here"),
        ("127.0.0.1:99999", "port 99999 does not exist"),
        ("http://me:secret@", "it names no host; write it as in http://host:8080"),
        ("http://[::1", "Invalid IPv6 URL"),
    ],
)
async def test_an_invalid_proxy_is_reported(proxy: str, why: str, unproxied: pytest.MonkeyPatch) -> None:
    unproxied.setenv("HTTPS_PROXY", proxy)
    client = ModelClient(Endpoint("https://nowhere.invalid/v1", "m"), EndpointProfile(), retry=FAST, timeouts=BRISK)
    for ask in (updates_of(client), client.model_ids()):
        with pytest.raises(RequestError) as caught:
            await ask
        assert f"proxy of the environment for nowhere.invalid cannot be used: {why}" in caught.value.message
        assert "HTTPS_PROXY" in caught.value.message and "secret" not in caught.value.message
        assert caught.value.kind is FailureKind.INVALID_REQUEST, "to try again is of no use"
    await client.aclose()


async def test_an_invalid_proxy_for_another_scheme_is_reported(unproxied: pytest.MonkeyPatch) -> None:
    unproxied.setenv("HTTP_PROXY", "gopher://127.0.0.1:9")
    client = ModelClient(Endpoint("https://nowhere.invalid/v1", "m"), EndpointProfile(), retry=FAST, timeouts=BRISK)
    with pytest.raises(RequestError, match="cannot be used: it has to be http:// or https://"):
        await updates_of(client)
    await client.aclose()


@pytest.mark.parametrize(
    ("proxy", "told"),
    [
        (
            "http://me:secret@127.0.0.1:9",
            "Nothing answers at 127.0.0.1:9, the proxy of the environment for nowhere.invalid. Is",
        ),
        (
            "http://no-proxy.invalid:80",
            "There is no host no-proxy.invalid:80, the proxy of the environment for nowhere.invalid.",
        ),
    ],
)
@pytest.mark.parametrize("name", ["https_proxy", "all_proxy"])
async def test_a_silent_proxy_is_named(name: str, proxy: str, told: str, unproxied: pytest.MonkeyPatch) -> None:
    unproxied.setenv(name, proxy)
    client = ModelClient(Endpoint("https://nowhere.invalid/v1", "m"), EndpointProfile(), retry=FAST, timeouts=BRISK)
    with pytest.raises(RequestError) as caught:
        await updates_of(client)
    assert told in caught.value.message and "HTTPS_PROXY" in caught.value.message
    assert "secret" not in caught.value.message
    await client.aclose()


async def test_a_proxy_that_refuses_is_named(server: WireServer, unproxied: pytest.MonkeyPatch) -> None:
    # What listens there is no proxy: it says no to CONNECT.
    unproxied.setenv("HTTPS_PROXY", server.base_url.removesuffix("/v1"))
    client = ModelClient(Endpoint("https://nowhere.invalid/v1", "m"), EndpointProfile(), retry=FAST, timeouts=BRISK)
    with pytest.raises(RequestError, match=r"connection to 127.0.0.1:\d+, the proxy .* for nowhere.invalid failed"):
        await updates_of(client)
    await client.aclose()


@pytest.mark.parametrize("exempt", ["nowhere.invalid", "*"])
async def test_a_proxy_that_an_address_bypasses_is_not_named(exempt: str, unproxied: pytest.MonkeyPatch) -> None:
    unproxied.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
    unproxied.setenv("NO_PROXY", exempt)
    client = ModelClient(Endpoint("https://nowhere.invalid/v1", "m"), EndpointProfile(), retry=FAST, timeouts=BRISK)
    with pytest.raises(RequestError, match=r"There is no host nowhere.invalid\. Check the base URL"):
        await updates_of(client)
    await client.aclose()


def test_an_untrusted_certificate_is_not_reported_as_a_missing_host() -> None:
    reader = FailureDescriber(Endpoint("https://here.example/v1", "m"))
    refused = ConnectionError("Connection error.")
    refused.__cause__ = ssl.SSLCertVerificationError(1, "self-signed certificate")
    failed = reader.describe_unreachable(refused)
    assert "TLS certificate that this machine does not trust (" in failed.message
    assert "SSL_CERT_FILE" in failed.message and not failed.retryable


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


async def test_an_html_error_page_is_reported_by_its_title(server: WireServer) -> None:
    page = "<html><title>Bad gateway</title><body><h1>nginx</h1></body></html>"
    failed = await failure(server, document(page, status=502))
    assert ": Bad gateway. " in failed.message and "nginx" not in failed.message


@pytest.mark.parametrize(
    ("key", "headers", "words"),
    [
        ("secret-1\nsecret-2", {}, "The API key has a line break in it"),
        ("secret\u2019s", {}, "The API key has a character in it that no header may have"),
        ("", {"x-team": "secret\r\nmore"}, "The header 'x-team' has a line break in it"),
    ],
)
async def test_invalid_headers_are_refused(server: WireServer, key: str, headers: dict[str, str], words: str) -> None:
    client = ModelClient(Endpoint(server.base_url, "m", SecretStr(key), headers), EndpointProfile(), timeouts=BRISK)
    for ask in (updates_of(client), client.model_ids()):
        with pytest.raises(RequestError, match=words) as caught:
            await ask
        assert "secret" not in caught.value.message and "Check the configuration" in caught.value.message
    assert not server.requests and not server.visits
    await client.aclose()


async def test_secrets_of_an_address_are_sent_but_never_shown(server: WireServer) -> None:
    server.script([error(400, "No dXNlcjpzM2NyM3Q= s3cr3t t0k3n-of-mine")])
    url = server.base_url.replace("http://", "http://user:s3cr3t@") + "/?api-key=t0k3n-of-mine&api-version=7"
    endpoint = Endpoint(url, "m")
    assert endpoint.base_url == f"{server.base_url}/?api-version=7"
    cache: dict[str, dict[str, Any]] = {}
    client = ModelClient(endpoint, EndpointProfile(), timeouts=BRISK, cache=cache)
    with pytest.raises(RequestError) as caught:
        await updates_of(client)
    server.script([error(400, "stream_options unknown"), Turn("Hi")])
    await updates_of(client)
    await client.aclose()
    (key,) = cache
    for seen in (caught.value.message, repr(endpoint), key):
        assert "s3cr3t" not in seen and "t0k3n" not in seen and "dXNlcjpzM2NyM3Q" not in seen
    for request in server.requests:
        path, _, query = request.path.partition("?")
        assert path == "/v1/chat/completions"
        assert sorted(query.split("&")) == ["api-key=t0k3n-of-mine", "api-version=7"]
        assert request.headers["authorization"] == "Basic dXNlcjpzM2NyM3Q="


async def test_https_to_a_plain_http_port_is_reported(server: WireServer) -> None:
    url = server.base_url.replace("http:", "https:")
    # The server waits for the rest of a request line, and the client for the server's half of the handshake.
    client = ModelClient(Endpoint(url, "m"), EndpointProfile(), retry=FAST, timeouts=replace(BRISK, connect=0.2))
    with pytest.raises(RequestError) as caught:
        await updates_of(client)
    assert caught.value.kind is FailureKind.UNREACHABLE
    await client.aclose()


@pytest.mark.parametrize("near", ["http://127.0.0.1:1/v1", "http://localhost/v1", "http://[::1]:8080/v1"])
def test_a_local_server_has_longer_to_send_its_first_token(near: str) -> None:
    assert Timeouts.for_endpoint(Endpoint(near, "m")).first > Timeouts().first
    for far in ("https://api.example.com/v1", "http://10.0.0.7/v1", "http://localhost.example.com/v1"):
        assert Timeouts.for_endpoint(Endpoint(far, "m")) == Timeouts()


async def test_the_model_list_is_read_and_its_failure_reported(server: WireServer) -> None:
    server.models = ["a", "b"]
    async with client_of(server) as client:
        assert await client.model_ids() == ["a", "b"]
        server.route("/v1/models", document({"models": [{"name": "c"}, {"id": 3}, "x"]}))
        assert await client.model_ids() == ["c"]
        server.route("/v1/models", document("<html>", content_type="text/html"))
        with pytest.raises(RequestError):
            await client.model_ids()
        server.route("/v1/models", Reply((STALL,)))
        async with client_of(server, timeouts=replace(BRISK, connect=0.1, write=0.1)) as impatient:
            with pytest.raises(RequestError, match=r"nothing for 0\.1 s while waiting for the list of models"):
                await impatient.model_ids()
        server.route("/v1/models", error(401, "No"))
        with pytest.raises(RequestError) as caught:
            await client.model_ids()
        assert caught.value.kind is FailureKind.AUTH


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
async def test_the_model_list_gives_context_windows(
    server: WireServer, entry: dict[str, Any], window: int | None
) -> None:
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
        await client.model_ids()
        assert client.profile.context_window == 9, "what the user or the server said goes over the list"


async def test_a_missing_model_list_is_requested_once(server: WireServer) -> None:
    server.route("/v1/models", error(404, "no"))
    server.always(Turn("Hi"))
    async with client_of(server) as client:
        for _ in range(2):
            await updates_of(client, lambda profile: Payload([{"role": "user", "content": "word " * 6_000}], TOOLS))
    assert len(server.visits) == 1


async def test_a_failure_that_a_retry_solves_is_not_reported(server: WireServer) -> None:
    server.script([error(503, "Loading"), error(500, "Oops"), error(429, "Wait"), Turn("Hi")])
    async with client_of(server) as client:
        updates = await updates_of(client, opening)
    assert response(updates).text == "Hi"
    assert [update.attempt for update in updates if isinstance(update, RetryScheduled)] == [1, 2, 3]
