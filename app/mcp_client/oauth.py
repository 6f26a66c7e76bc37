"""Sign in to a server in the user's browser: OAuth 2.1 with PKCE, as required by MCP's specification.

The sign-in page is found by RFC 9728 (metadata of the resource) and RFC 8414 (of the authorization server). If the
user has not configured a client id, signoff registers itself by RFC 7591. The browser is redirected to a local port.
A malicious server could combine the sign-in page of an honest authorization server with its own token endpoint, to
get codes for the honest one (mix-up attack, RFC 9700 section 4.4). Therefore metadata must name the issuer that it
was requested for (RFC 8414 section 3.3), the redirect must come from that issuer if it names one (RFC 9207), and the
user must confirm addresses at more than one origin.
"""

import asyncio
import base64
import hashlib
import json
import re
import secrets
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import httpx2
from msgspec import Struct

from app.mcp_client.http_connection import make_http_client, url_origin
from app.mcp_client.mcp_connection import ConnectionLost
from app.mcp_client.token_store import OAuthToken, TokenStore

_MAX_REQUEST_BYTES = 16_384
_CALLBACK_PATH = "/callback"
_PAGE_TEMPLATE = b"<!doctype html><meta charset=utf-8><title>signoff</title><p>%s You can close this page."


class SignInRequest(Struct, frozen=True):
    """The URL, the port and the check of a pasted address that the user needs to sign in."""

    address: str
    """The URL to open in the browser."""
    port: int
    """The local port of the redirect."""
    accept_pasted_address: Callable[[str], bool]
    """Called with the redirect URL if the user pastes it; returns whether it is the right one."""


class OAuthCallbackListener:
    """Listens for the browser's redirect; requests without the right state are ignored."""

    def __init__(self) -> None:
        self.state = secrets.token_urlsafe(32)
        self.port = 0
        """The port on which it listens."""
        self._redirect: asyncio.Future[Mapping[str, str]] = asyncio.get_running_loop().create_future()
        self._answer_tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> "OAuthCallbackListener":
        """Start listening. Raises SignInFailed."""
        try:
            self._server = await asyncio.start_server(self._handle_request, "127.0.0.1", 0, limit=_MAX_REQUEST_BYTES)
        except OSError as error:
            raise SignInFailed(f"no port of this machine could be opened: {error.strerror or error}") from error
        self.port = int(self._server.sockets[0].getsockname()[1])
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stop listening."""
        # Don't wait for open connections: browsers keep some that they never use.
        self._server.close()
        for task in self._answer_tasks:
            task.cancel()

    @property
    def address(self) -> str:
        """Return the redirect URL."""
        return f"http://127.0.0.1:{self.port}{_CALLBACK_PATH}"

    def accept_pasted_address(self, address: str) -> bool:
        """Accept a URL if it is the redirect URL with the right state; return whether it is."""
        try:
            parts = urlsplit(address.strip())
            values_by_name = parse_qs(parts.query, keep_blank_values=True)
            parameters = {key: values[0] for key, values in values_by_name.items()}
            # RFC 6749 section 3.1 forbids repeated parameters; with two issuers it is unclear which one counts.
            has_no_repeats = all(len(values) == 1 for values in values_by_name.values())
            is_expected = (
                has_no_repeats
                and parts.path == _CALLBACK_PATH
                and secrets.compare_digest(parameters.get("state", ""), self.state)
            )
        except (ValueError, TypeError):
            return False
        if is_expected and not self._redirect.done():
            self._redirect.set_result(parameters)
        return is_expected

    async def wait_for_redirect(self, seconds: float) -> Mapping[str, str]:
        """Return the parameters of the browser's redirect. Raises TimeoutError."""
        return await asyncio.wait_for(self._redirect, seconds)

    async def _handle_request(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._answer_tasks.add(task)
        try:
            async with asyncio.timeout(_REQUEST_SECONDS):
                line = (await reader.readuntil(b"\r\n")).decode("ascii", "replace")
            _, target, _ = line.split(" ", 2)
            is_expected = self.accept_pasted_address(target)
            page = _PAGE_TEMPLATE % (
                b"signoff has your answer." if is_expected else b"This is nothing that signoff asked for."
            )
            status = 200 if is_expected else 404
            head = f"HTTP/1.1 {status} X\r\nContent-Type: text/html\r\nContent-Length: {len(page)}\r\n"
            writer.write(f"{head}Connection: close\r\n\r\n".encode() + page)
            # Don't wait until the page is sent: the browser may never read it.
        except (OSError, ValueError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            return
        finally:
            self._answer_tasks.discard(task)
            writer.close()


ShowSignIn = Callable[[SignInRequest], Awaitable[None]]
"""Shows the user how to sign in, and returns at once."""
OriginsByRole = Mapping[str, str]
"""The origins of all addresses in a sign-in, by purpose."""
ConfirmOrigins = Callable[[OriginsByRole], Awaitable[bool]]
"""Asks the user whether to sign in although the addresses have different origins."""
MAX_RESPONSE_BYTES = 256 * 1024
"""Maximum number of bytes of one response."""
SIGN_IN_SECONDS = 300.0
"""Seconds that the user has to sign in."""
_REQUEST_SECONDS = 20.0
_MAX_ERROR_CHARACTERS = 500
"""Maximum number of characters of an authorization server's error message."""
_METADATA_URL = re.compile(r'resource_metadata="([^"]{1,2000})"')
_SAFE_URL = re.compile(r"https?://([a-z0-9._-]+|\[[0-9a-f:.]+\])(:[0-9]{1,5})?([/?][!-\"$-\[\]-~]*)?", re.IGNORECASE)
"""A URL that browsers and this program parse in the same way: ASCII, without user name, backslash and fragment."""
_SCOPE = re.compile(r'(?:^|[\s,])scope="([^"]{1,2000})"')


class SignInFailed(Exception):
    """The user is not signed in; the message is one line that says why."""


class OAuthCredentialsRefused(SignInFailed):
    """An authorization server refused the credentials; they are not valid any more."""


class _AuthorizationServer(Struct, frozen=True):
    """Addresses of the sign-in."""

    issuer: str
    authorization: str
    token: str
    registration: str
    scope: str
    resource: str
    names_itself: bool
    """Its redirects name the issuer (RFC 9207)."""


class OAuthSignIn:
    """Signs the user in to one server.

    Args:
        client: Sends the requests.
        client_id: The user's client id; without it signoff registers itself.
    """

    def __init__(self, url: str, client: httpx2.AsyncClient, *, client_id: str = "") -> None:
        self._url = url
        self._client = client
        self._client_id = client_id

    async def sign_in(self, challenge: str, show: ShowSignIn, confirm: ConfirmOrigins | None) -> OAuthToken:
        """Sign the user in; return the token. Raises SignInFailed.

        Args:
            challenge: The header with which the server has requested a sign-in.
            confirm: Asks the user about addresses of different origins; None refuses them.
        """
        server = await self._find_authorization_server(challenge)
        await self._confirm_origins(server, confirm)
        verifier = secrets.token_urlsafe(64)
        async with OAuthCallbackListener() as listener:
            client_id, secret = await self._register_client(server, listener.address)
            query = {
                "response_type": "code",
                "client_id": client_id,
                "redirect_uri": listener.address,
                "state": listener.state,
                "code_challenge": _challenge_of(verifier),
                "code_challenge_method": "S256",
                "resource": server.resource,
                **({"scope": server.scope} if server.scope else {}),
            }
            separator = "&" if urlsplit(server.authorization).query else "?"
            await show(
                SignInRequest(
                    f"{server.authorization}{separator}{urlencode(query)}",
                    listener.port,
                    listener.accept_pasted_address,
                )
            )
            try:
                answer = await listener.wait_for_redirect(SIGN_IN_SECONDS)
            except TimeoutError as error:
                raise SignInFailed("nobody signed in within five minutes") from error
        answering_issuer = answer.get("iss", "" if server.names_itself else server.issuer)
        if answering_issuer != server.issuer:
            issuer_name = answering_issuer[:200] or "an authorization server that does not name itself"
            raise SignInFailed(f"the answer is from {issuer_name}, not from {server.issuer[:200]}")
        if not answer.get("code"):
            raise SignInFailed(
                f"it was refused: {answer.get('error_description') or answer.get('error') or 'no code'}"
            )
        grant = {"grant_type": "authorization_code", "code": answer["code"], "redirect_uri": listener.address}
        empty_token = OAuthToken(
            access_token="",
            token_endpoint=server.token,
            client_id=client_id,
            client_secret=secret,
            resource=server.resource,
        )
        return await self._request_token(empty_token, {**grant, "code_verifier": verifier})

    async def refresh(self, token: OAuthToken) -> OAuthToken:
        """Return a new token for an expired one.

        Raises SignInFailed, or OAuthCredentialsRefused if the user has to sign in again.
        """
        if not token.refresh_token:
            raise OAuthCredentialsRefused("the sign-in has ended")
        return await self._request_token(token, {"grant_type": "refresh_token", "refresh_token": token.refresh_token})

    async def _request_token(self, token: OAuthToken, grant: Mapping[str, str]) -> OAuthToken:
        form = {**grant, "client_id": token.client_id, "resource": token.resource}
        if token.client_secret:
            form["client_secret"] = token.client_secret
        answer = await self._request_json("POST", token.token_endpoint, data=form)
        access, refresh, lifetime = (answer.get(key) for key in ("access_token", "refresh_token", "expires_in"))
        if not isinstance(access, str) or not access or not access.isascii() or not access.isprintable():
            raise SignInFailed("the authorization server gave no token")
        return token.model_copy(
            update={
                "access_token": access,
                "refresh_token": refresh if isinstance(refresh, str) else token.refresh_token,
                "expires": time.time() + lifetime if isinstance(lifetime, int | float) else 0,
            }
        )

    async def _find_authorization_server(self, challenge: str) -> _AuthorizationServer:
        resource = await self._fetch_resource_metadata(challenge)
        issuers = resource.get("authorization_servers")
        issuer = self._check_url(str(issuers[0]) if isinstance(issuers, list) and issuers else url_origin(self._url))
        metadata = await self._fetch_server_metadata(issuer)
        methods = metadata.get("code_challenge_methods_supported")
        if isinstance(methods, list) and "S256" not in methods:
            raise SignInFailed("the authorization server does not know PKCE")
        base = issuer.rstrip("/")
        scopes = resource.get("scopes_supported") or []
        # The scope of this request has precedence over all supported scopes.
        requested_scopes = [scope[1]] if (scope := _SCOPE.search(challenge)) else scopes
        return _AuthorizationServer(
            str(metadata.get("issuer") or issuer),
            self._check_url(str(metadata.get("authorization_endpoint") or f"{base}/authorize")),
            self._check_url(str(metadata.get("token_endpoint") or f"{base}/token")),
            self._check_url(str(metadata.get("registration_endpoint") or f"{base}/register")),
            " ".join(map(str, requested_scopes)) if isinstance(requested_scopes, list) else "",
            str(resource.get("resource") or self._url),
            metadata.get("authorization_response_iss_parameter_supported") is True,
        )

    async def _fetch_resource_metadata(self, challenge: str) -> dict[str, Any]:
        """Return the server's metadata; metadata of another resource is ignored."""
        origin, path = url_origin(self._url), urlsplit(self._url).path.rstrip("/")
        metadata_url = _METADATA_URL.search(challenge)
        well_known = f"{origin}/.well-known/oauth-protected-resource"
        for address in ([metadata_url[1]] if metadata_url else []) + [f"{well_known}{path}", well_known]:
            metadata = await self._fetch_json_or_none(address)
            if metadata is not None and _covers(str(metadata.get("resource") or self._url), self._url):
                return metadata
        return {}

    async def _confirm_origins(self, server: _AuthorizationServer, confirm: ConfirmOrigins | None) -> None:
        """Return if all addresses have one origin or the user agrees to them; raise SignInFailed otherwise."""
        addresses = {
            "server": self._url,
            "issuer": server.issuer,
            "sign-in page": server.authorization,
            "code and refresh token go to": server.token,
            **({} if self._client_id else {"registration": server.registration}),
        }
        roles = {purpose: url_origin(address) for purpose, address in addresses.items()}
        if len(set(roles.values())) == 1:
            return
        if confirm is None:
            named = ", ".join(f"{purpose} {origin}" for purpose, origin in roles.items())
            raise SignInFailed(f"its sign-in uses several addresses ({named}): sign in from the app, which asks you")
        if not await confirm(roles):
            raise SignInFailed("you did not agree to the addresses of its sign-in")

    async def _fetch_server_metadata(self, issuer: str) -> dict[str, Any]:
        """Return the metadata of an issuer; empty if it has none. Raises SignInFailed if it names another issuer."""
        origin, path = url_origin(issuer), urlsplit(issuer).path.rstrip("/")
        well_known = f"{origin}/.well-known"
        suffixes = (f"oauth-authorization-server{path}", f"openid-configuration{path}")
        other_issuers: list[str] = []
        for address in (
            *(f"{well_known}/{suffix}" for suffix in suffixes),
            f"{origin}{path}/.well-known/openid-configuration",
        ):
            metadata = await self._fetch_json_or_none(address)
            if metadata is None:
                continue
            metadata_issuer = str(metadata.get("issuer", ""))
            # A slash after a host without path makes no difference.
            if metadata_issuer == issuer or (not path and metadata_issuer.rstrip("/") == issuer.rstrip("/")):
                return metadata
            other_issuers.append(metadata_issuer[:200] or "no issuer")
        if other_issuers:
            raise SignInFailed(f"the metadata of {issuer[:200]} names {other_issuers[0]} as its issuer")
        return {}

    async def _fetch_json_or_none(self, address: str) -> dict[str, Any] | None:
        try:
            return await self._request_json("GET", self._check_url(address))
        except SignInFailed:
            return None

    async def _register_client(self, server: _AuthorizationServer, redirect_uri: str) -> tuple[str, str]:
        if self._client_id:
            return self._client_id, ""
        client_metadata = {
            "client_name": "signoff",
            "redirect_uris": [redirect_uri],
            "grant_types": ["authorization_code", "refresh_token"],
            "response_types": ["code"],
            "token_endpoint_auth_method": "none",
        }
        try:
            answer = await self._request_json("POST", server.registration, json=client_metadata)
        except SignInFailed as error:
            # It has a cause if the server cannot be reached; then a client_id does not help.
            advice = "" if error.__cause__ else "; give a client_id in [mcp.NAME]"
            raise SignInFailed(f"signoff could not register ({error}){advice}") from error
        client_id, secret = answer.get("client_id"), answer.get("client_secret")
        if not isinstance(client_id, str):
            raise SignInFailed("signoff could not register; give a client_id in [mcp.NAME]")
        return client_id, secret if isinstance(secret, str) else ""

    async def _request_json(self, method: str, address: str, **body_arguments: Any) -> dict[str, Any]:
        """Send a request and return the JSON object of the response; raises SignInFailed."""
        headers = {"Accept": "application/json", "Accept-Encoding": "identity"}
        host = urlsplit(address).netloc
        body = bytearray()
        try:
            async with (
                asyncio.timeout(_REQUEST_SECONDS),
                self._client.stream(method, address, headers=headers, **body_arguments) as response,
            ):
                async for piece in response.aiter_raw():
                    body += piece
                    if len(body) > MAX_RESPONSE_BYTES:
                        raise SignInFailed(f"{host} answers without end")
                status = response.status_code
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as error:
            raise SignInFailed(f"{host} cannot be reached: {error or type(error).__name__}") from error
        try:
            answer = json.loads(body)
        except (ValueError, RecursionError):
            answer = None
        why = answer.get("error_description") or answer.get("error") if isinstance(answer, dict) else ""
        if status >= 300 or not isinstance(answer, dict) or why:
            # GitHub and Slack refuse with status 200.
            refusal = OAuthCredentialsRefused if status in (400, 401) or (why and status < 300) else SignInFailed
            raise refusal(f"{host} answers with {str(why or '')[:_MAX_ERROR_CHARACTERS] or f'HTTP status {status}'}")
        return answer

    def _check_url(self, address: str) -> str:
        """Return the address if it is HTTPS, or on this machine like the server; raise SignInFailed otherwise."""
        local = {"127.0.0.1", "localhost", "::1"}
        try:
            # Both raise ValueError for an invalid URL, for example a port above 65,535.
            parts, server, _ = urlsplit(address), urlsplit(self._url), url_origin(address)
        except ValueError as error:
            raise SignInFailed(f"{address[:200]} is no address") from error
        if not _SAFE_URL.fullmatch(address):
            raise SignInFailed(f"{address[:200]} is no address without user name, fragment and special characters")
        if parts.scheme == "https" or {parts.hostname, server.hostname} <= local:
            return address
        raise SignInFailed(f"{address[:200]} is not encrypted")


def _covers(resource: str, url: str) -> bool:
    """Return whether a token's resource has the same origin as a URL, and the same path or a parent of it."""
    try:
        resource_parts, url_parts = urlsplit(resource), urlsplit(url)
    except ValueError:
        return False
    is_path_below = f"{url_parts.path}/".startswith(f"{resource_parts.path.rstrip('/')}/")
    return is_path_below and url_origin(resource) == url_origin(url)


def _challenge_of(verifier: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()


class OAuthSession:
    """Gives requests to one server their authorization headers; signs in, and stores and renews the token."""

    def __init__(self, url: str, tokens: TokenStore, client_id: str) -> None:
        self._url = url
        self._tokens = tokens
        self._client_id = client_id
        self._token_lock = asyncio.Lock()
        self._sent_token = ""
        """The access token of the last request."""

    async def headers(self) -> Mapping[str, str]:
        """Return the headers of a request; empty if the user has not signed in. Raises ConnectionLost."""
        async with self._token_lock:
            token = await self._load_token()
            if token is not None and token.is_expired:
                token = await self._renew(token)
            self._sent_token = token.access_token if token else ""
        return {"Authorization": f"Bearer {token.access_token}"} if token else {}

    async def refresh(self) -> bool:
        """Refresh a token that the server refused; return whether there is a new one. Raises ConnectionLost."""
        async with self._token_lock:
            token = await self._load_token()
            if token is not None and token.access_token != self._sent_token:
                # Another process has renewed it meanwhile.
                return True
            return token is not None and await self._renew(token) is not None

    async def sign_in(self, challenge: str, show: ShowSignIn, confirm: ConfirmOrigins | None) -> None:
        """Sign the user in like `OAuthSignIn.sign_in` and store the token; raises SignInFailed."""
        async with make_http_client() as client:
            token = await OAuthSignIn(self._url, client, client_id=self._client_id).sign_in(challenge, show, confirm)
        await self._save_token(token)

    async def _renew(self, token: OAuthToken) -> OAuthToken | None:
        """Return a new token; None if the user must sign in again. Raises ConnectionLost if the renewal failed."""
        try:
            try:
                async with make_http_client() as client:
                    renewed: OAuthToken | None = await OAuthSignIn(self._url, client).refresh(token)
            except OAuthCredentialsRefused:
                # Another process may have used this refresh token, which is valid only once.
                other = await self._load_token()
                if other is not None and other.access_token != token.access_token:
                    return other
                renewed = None
            await self._save_token(renewed)
            return renewed
        except SignInFailed as error:
            # A network error does not sign the user out.
            raise ConnectionLost(f"the sign-in could not be renewed: {error}") from error

    async def _load_token(self) -> OAuthToken | None:
        return await asyncio.to_thread(self._tokens.get, self._url)

    async def _save_token(self, token: OAuthToken | None) -> None:
        try:
            await asyncio.to_thread(self._tokens.save, self._url, token)
        except OSError as error:
            raise SignInFailed(f"the token cannot be kept: {error.strerror}") from error
