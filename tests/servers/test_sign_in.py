"""OAuth sign-in to a server in the browser: PKCE, a local callback port, and private token storage."""

import asyncio
import base64
import contextlib
import errno
import hashlib
import stat
import time
from collections.abc import AsyncIterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import Mock
from urllib.parse import parse_qs, urlencode, urlsplit

import httpx2
import pytest
from textual.widgets import Input

from app.mcp_client import oauth
from app.mcp_client.mcp_connection import ConnectionLost
from app.mcp_client.mcp_server import McpServerState
from app.mcp_client.oauth import MAX_RESPONSE_BYTES, SignInRequest
from app.mcp_client.token_store import OAuthToken, TokenStore
from tests.servers.address import Answer, ReceivedRequest, ScriptedServer, document, scripted_server
from tests.servers.stage import ServerSession, open_server_session
from tests.servers.test_screens import server_of
from tests.ui.running_app import Running, running
from tests.wire.server import WireServer


class Authority:
    """An authorization server at the same address as the protected MCP server."""

    def __init__(self, played: ScriptedServer) -> None:
        self.played = played
        self.origin = played.url.removesuffix("/mcp")
        self.asked: dict[str, str] = {}
        self.forms: list[dict[str, str]] = []
        self.expires_in = 3600
        self.metadata_overrides: dict[str, Any] = {}
        """Additional metadata."""
        self.protected_resource = played.url
        played.token = "access-1"
        where = "/.well-known/oauth-protected-resource/mcp"
        played.challenge = f'Bearer resource_metadata="{self.origin}{where}"'
        played.overrides[where] = self.resource
        played.overrides["/.well-known/oauth-authorization-server"] = self.metadata
        played.overrides["/register"] = self.register
        played.overrides["/token"] = self.token

    async def resource(self, request: ReceivedRequest, writer: asyncio.StreamWriter) -> None:
        servers = {"authorization_servers": [self.origin], "scopes_supported": ["use"]}
        writer.write(document({"resource": self.protected_resource, **servers}))

    async def metadata(self, request: ReceivedRequest, writer: asyncio.StreamWriter) -> None:
        endpoints = {"authorization": "authorize", "token": "token", "registration": "register"}
        metadata = {
            "issuer": self.origin,
            **{f"{name}_endpoint": f"{self.origin}/{path}" for name, path in endpoints.items()},
            "code_challenge_methods_supported": ["S256"],
        }
        writer.write(document(metadata | self.metadata_overrides))

    async def register(self, request: ReceivedRequest, writer: asyncio.StreamWriter) -> None:
        assert request.message["redirect_uris"][0].startswith("http://127.0.0.1:")
        writer.write(document({"client_id": "c1"}, status=201))

    async def token(self, request: ReceivedRequest, writer: asyncio.StreamWriter) -> None:
        form = {key: values[0] for key, values in parse_qs(request.body.decode()).items()}
        self.forms.append(form)
        if form["grant_type"] == "authorization_code":
            digest = hashlib.sha256(form["code_verifier"].encode()).digest()
            assert base64.urlsafe_b64encode(digest).rstrip(b"=").decode() == self.asked["code_challenge"]
            assert form["code"] == "code-1"
        else:
            assert form["refresh_token"] == "refresh-1"
            self.played.token = "access-2"
        tokens = {"access_token": self.played.token, "refresh_token": "refresh-1"}
        writer.write(document({**tokens, "expires_in": self.expires_in}))

    async def browse(self, invitation: SignInRequest, **answer: str) -> None:
        """Follow the sign-in page like a user in the browser."""
        async with httpx2.AsyncClient() as client:
            await client.get(self.callback_url(invitation.address, **answer))

    def callback_url(self, location: str, **answer: str) -> str:
        self.asked = {key: values[0] for key, values in parse_qs(urlsplit(location).query).items()}
        given = {"code": "code-1", "state": self.asked["state"], **answer}
        return f"{self.asked['redirect_uri']}?{urlencode(given)}"


@contextlib.asynccontextmanager
async def signed_out(wire: WireServer, folder: Path) -> AsyncIterator[tuple[ServerSession, Authority]]:
    async with scripted_server() as played:
        authority = Authority(played)
        async with open_server_session(wire, folder, {"far": {"url": played.url}}) as on:
            await on.until(lambda: on.server("far").state is McpServerState.SIGN_IN)
            yield on, authority


def answering(body: object, status: int = 200) -> Answer:
    async def send(request: ReceivedRequest, writer: asyncio.StreamWriter) -> None:
        writer.write(document(body, status=status))

    return send


async def signed_in(on: ServerSession, authority: Authority) -> tuple[TokenStore, str, OAuthToken]:
    """Sign in; return the stored tokens, and the address and the token of the server."""
    await on.server("far").sign_in(authority.browse)
    tokens, url = TokenStore(on.host.runtime.dirs.tokens), authority.played.url
    token = tokens.get(url)
    assert token is not None
    return tokens, url, token


async def test_the_user_signs_in_and_stays_signed_in(wire: WireServer, tmp_path: Path) -> None:
    async with signed_out(wire, tmp_path) as (on, authority):
        await on.server("far").sign_in(authority.browse)
        assert on.server("far").state is McpServerState.READY
        assert authority.asked["resource"] == authority.played.url
        assert authority.asked["scope"] == "use"
        assert await on.run_turn(("far__echo", {"text": "hello"})) == "hello"
        file = on.host.runtime.dirs.tokens
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert "access-1" in file.read_text()
        # The token is not in the database, in the model's messages or in a log.
        assert "access-1" not in str(on.session.log.events) + str(on.server("far").log.lines) + str(wire.last.body)
        assert b"access-1" not in on.host.runtime.dirs.database.read_bytes()
        # The second time, the server rejects the token, and it is refreshed.
        for token in ("access-1", "another"):
            authority.played.token = token
            async with open_server_session(wire, tmp_path, {"far": {"url": authority.played.url}}) as again:
                await again.wait_until_ready("far")


async def test_expired_or_rejected_token_is_refreshed(wire: WireServer, tmp_path: Path) -> None:
    async with signed_out(wire, tmp_path) as (on, authority):
        tokens, url, token = await signed_in(on, authority)
        tokens.save(url, token.model_copy(update={"expires": time.time() - 1}))
        assert await on.run_turn(("far__echo", {"text": "one"})) == "one"
        assert [form["grant_type"] for form in authority.forms] == ["authorization_code", "refresh_token"]
        authority.played.token = "another"
        assert await on.run_turn(("far__echo", {"text": "two"})) == "two"
        assert len(authority.forms) == 3
        # A server that rejects every token is not asked again.
        authority.played.overrides["tools/call"] = answering({}, 401)
        assert "you have to sign in: /mcp" in await on.run_turn(("far__echo", {"text": "three"}))
        assert len(authority.forms) == 4
        assert on.server("far").state is McpServerState.SIGN_IN


async def test_without_renewal_a_sign_in_is_needed_unless_the_network_fails(wire: WireServer, tmp_path: Path) -> None:
    async with signed_out(wire, tmp_path) as (on, authority):
        tokens, url, token = await signed_in(on, authority)
        ended = token.model_copy(update={"expires": 1, "token_endpoint": "http://127.0.0.1:9/token"})
        tokens.save(url, ended)
        assert "the sign-in could not be renewed" in await on.run_turn(("far__echo", {"text": "two"}))
        assert tokens.get(url) == ended
        tokens.save(url, token)
        assert await on.run_turn(("far__echo", {"text": "three"})) == "three"
        tokens.save(url, token.model_copy(update={"expires": 1, "refresh_token": ""}))
        assert "you have to sign in: /mcp" in await on.run_turn(("far__echo", {"text": "two"}))
        assert [form["grant_type"] for form in authority.forms] == ["authorization_code"]
        for status in (400, 200):
            authority.played.overrides["/token"] = authority.token
            authority.played.token = "access-1"
            await on.server("far").sign_in(authority.browse)
            authority.played.overrides["/token"] = answering({"error": "invalid_grant"}, status)
            authority.played.token = "another"
            assert "you have to sign in: /mcp" in await on.run_turn(("far__echo", {"text": "two"}))
            assert on.server("far").state is McpServerState.SIGN_IN
            assert tokens.get(url) is None


async def test_a_start_that_fails_after_the_sign_in_is_no_failed_sign_in(wire: WireServer, tmp_path: Path) -> None:
    async with signed_out(wire, tmp_path) as (on, authority):
        authority.played.overrides["initialize"] = answering({}, 500)
        await signed_in(on, authority)
        assert on.server("far").state is McpServerState.FAILED
        assert on.server("far").problem == "it answers with HTTP status 500"


async def test_the_callback_is_validated(wire: WireServer, tmp_path: Path) -> None:
    announced = {"authorization_response_iss_parameter_supported": True}
    async with signed_out(wire, tmp_path) as (on, authority):
        refused: list[tuple[dict[str, Any], dict[str, Any], str]] = [
            ({"error": "access_denied", "code": ""}, {}, "access_denied"),
            ({"iss": "https://evil.example"}, {}, "from https://evil.example"),
            ({}, announced, "does not name itself"),
        ]
        for answer, authority.metadata_overrides, why in refused:
            with pytest.raises(ConnectionLost, match=why):
                await on.server("far").sign_in(partial(authority.browse, **answer))
            assert not on.host.runtime.dirs.tokens.exists()
        await on.server("far").sign_in(partial(authority.browse, iss=authority.origin))
        assert on.server("far").state is McpServerState.READY


@pytest.mark.parametrize("cut", [1, 5, None], ids=["beside its path", "another host", "no address"])
async def test_a_token_is_not_sent_to_a_similar_address(cut: int | None, wire: WireServer, tmp_path: Path) -> None:
    async with signed_out(wire, tmp_path) as (on, authority):
        authority.protected_resource = authority.played.url[:-cut] if cut else "http://["
        await on.server("far").sign_in(authority.browse)
        assert authority.asked["resource"] == authority.played.url
        assert authority.forms[0]["resource"] == authority.played.url


async def test_configured_client_id_and_scope_of_the_challenge_are_used(wire: WireServer, tmp_path: Path) -> None:
    async with scripted_server() as played:
        authority = Authority(played)
        played.challenge += ', scope="read:one"'
        async with open_server_session(wire, tmp_path, {"far": {"url": played.url, "client_id": "mine"}}) as on:
            await on.until(lambda: on.server("far").state is McpServerState.SIGN_IN)
            await on.server("far").sign_in(authority.browse)
        assert authority.asked["scope"] == "read:one", "it precedes all that are supported"
        assert authority.asked["client_id"] == authority.forms[0]["client_id"] == "mine"
        assert "/register" not in [request.path for request in played.requests]


async def test_a_missing_scope_asks_to_sign_in_again(wire: WireServer, tmp_path: Path) -> None:
    async with signed_out(wire, tmp_path) as (on, authority):
        await on.server("far").sign_in(authority.browse)

        async def refuse(request: ReceivedRequest, writer: asyncio.StreamWriter) -> None:
            more = f'{authority.played.challenge}, error="insufficient_scope", scope="use write"'
            writer.write(document(b"", status=403, WWW_Authenticate=more))

        authority.played.overrides["tools/call"] = refuse
        assert "you have to sign in again, with more permissions" in await on.run_turn(("far__echo", {"text": "x"}))
        assert on.server("far").state is McpServerState.SIGN_IN
        del authority.played.overrides["tools/call"]
        await on.server("far").sign_in(authority.browse)
        assert authority.asked["scope"] == "use write"
        assert await on.run_turn(("far__echo", {"text": "x"})) == "x"


async def test_callback_address_can_be_pasted(wire: WireServer, tmp_path: Path) -> None:
    async with signed_out(wire, tmp_path) as (on, authority):

        async def paste(invitation: SignInRequest) -> None:
            wrong = authority.callback_url(invitation.address, state="guessed")
            twice = f"{authority.callback_url(invitation.address, iss=authority.origin)}&iss=https://honest.example"
            codes = f"{authority.callback_url(invitation.address)}&code=other"
            for nothing in ("", "code-1", "https://[", invitation.address, wrong, "http://127.0.0.1/?state=\xe9"):
                assert not invitation.accept_pasted_address(nothing)
            assert not invitation.accept_pasted_address(twice)
            assert not invitation.accept_pasted_address(codes)
            assert invitation.accept_pasted_address(f"  {authority.callback_url(invitation.address)}\n")

        await on.server("far").sign_in(paste)
        assert on.server("far").state is McpServerState.READY
        assert len(authority.forms) == 1


async def hang_up(request: ReceivedRequest, writer: asyncio.StreamWriter) -> None:
    writer.close()


UNUSABLE = {
    "no token": ("/token", answering({}), "gave no token"),
    "an empty token": ("/token", answering({"access_token": ""}), "gave no token"),
    "a token that is no text": ("/token", answering({"access_token": 7}), "gave no token"),
    "a token with a header in it": ("/token", answering({"access_token": "a\r\nX: y"}), "gave no token"),
    "a token beyond ASCII": ("/token", answering({"access_token": "é"}), "gave no token"),
    "a token without end": ("/token", answering({"access_token": "a" * MAX_RESPONSE_BYTES}), "answers without end"),
    "no client": ("/register", answering({"client_id": 5}, 201), "could not register; give a client_id"),
    "no registration": ("/register", answering({}, 404), r"could not register \(.* 404\); give a client_id"),
    "a registration that breaks off": ("/register", hang_up, r"could not register \(.* cannot be reached: [^;]*\)$"),
}


async def test_unusable_authority_response_becomes_an_error_line(wire: WireServer, tmp_path: Path) -> None:
    async with signed_out(wire, tmp_path) as (on, authority):
        usable = dict(authority.played.overrides)
        for path, answer, why in UNUSABLE.values():
            authority.played.overrides.update(usable | {path: answer})
            with pytest.raises(ConnectionLost, match=why):
                await on.server("far").sign_in(authority.browse)
            assert not on.host.runtime.dirs.tokens.exists()


async def test_a_sign_in_that_cannot_be_completed_stores_nothing(
    wire: WireServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def look_and_leave(invitation: SignInRequest) -> None:
        pass

    async def full(*_: object, **__: object) -> None:
        raise OSError(errno.EADDRNOTAVAIL, "none is left")

    async with signed_out(wire, tmp_path) as (on, authority):
        with monkeypatch.context() as patch:
            patch.setattr(oauth, "SIGN_IN_SECONDS", 0.05)
            with pytest.raises(ConnectionLost, match="nobody signed in within five minutes"):
                await on.server("far").sign_in(look_and_leave)
        with monkeypatch.context() as patch:
            patch.setattr(asyncio, "start_server", full)
            with pytest.raises(ConnectionLost, match="no port of this machine could be opened: none is left"):
                await on.server("far").sign_in(authority.browse)
        assert authority.asked == {}, "the browser is not opened without a port for the callback"
        file = on.host.runtime.dirs.tokens
        file.mkdir()
        with pytest.raises(ConnectionLost, match="the token cannot be kept: Is a directory"):
            await on.server("far").sign_in(authority.browse)
        assert not list(file.parent.glob(".tokens-*"))


async def test_invalid_callback_request_is_disconnected(
    wire: WireServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with signed_out(wire, tmp_path) as (on, authority):

        async def browse(invitation: SignInRequest) -> None:
            for nonsense in (b"", b"GET\r\n", b"x" * 40_000):
                reader, writer = await asyncio.open_connection("127.0.0.1", invitation.port)
                writer.write(nonsense)
                if len(nonsense) < 100:
                    writer.write_eof()
                with contextlib.suppress(ConnectionError):
                    assert await reader.read() == b""
                writer.close()
            await authority.browse(invitation, state="guessed", code="stolen")
            await authority.browse(invitation)

        await on.server("far").sign_in(browse)
        assert on.server("far").state is McpServerState.READY
        assert authority.forms[0]["code"] == "code-1", "a callback with a wrong state is ignored"
        # The log record would appear in the middle of the screen.
        assert not [record for record in caplog.records if record.name == "asyncio"]


async def test_a_token_renewed_by_another_window_is_used(wire: WireServer, tmp_path: Path) -> None:
    async with signed_out(wire, tmp_path) as (on, authority):
        tokens, url, token = await signed_in(on, authority)

        async def late(request: ReceivedRequest, writer: asyncio.StreamWriter) -> None:
            tokens.save(url, token.model_copy(update={"access_token": "of the other window"}))
            authority.played.token = "of the other window"
            del authority.played.overrides["tools/call"]
            writer.write(document(b"", status=401))

        authority.played.overrides["tools/call"] = late
        assert await on.run_turn(("far__echo", {"text": "two"})) == "two"
        assert len(authority.forms) == 1
        # Here it is renewed while this window tries to.
        authority.played.token = "of a third"
        other = token.model_copy(update={"access_token": "of a third", "refresh_token": "2"})

        async def used(request: ReceivedRequest, writer: asyncio.StreamWriter) -> None:
            tokens.save(url, other)
            writer.write(document({"error": "invalid_grant"}, status=400))

        authority.played.overrides["/token"] = used
        assert await on.run_turn(("far__echo", {"text": "two"})) == "two"
        assert tokens.get(url) == other


def test_concurrent_windows_store_all_their_tokens(tmp_path: Path) -> None:
    token = OAuthToken(access_token="a", token_endpoint="https://a.example/token", client_id="c")
    windows = [TokenStore(tmp_path / "tokens.json") for _ in range(8)]
    with ThreadPoolExecutor(8) as pool:
        for number, each in enumerate(windows * 4):
            pool.submit(each.save, f"https://a.example/{number}", token)
    assert all(windows[0].get(f"https://a.example/{number}") for number in range(32))


def test_tokens_that_cannot_be_read_are_not_overwritten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = TokenStore(tmp_path / "tokens.json")
    token = OAuthToken(access_token="a", token_endpoint="https://a.example/token", client_id="c")
    store.save("https://a.example/1", token)
    with monkeypatch.context() as broken:
        broken.setattr(Path, "read_text", Mock(side_effect=PermissionError))
        assert store.get("https://a.example/1") is None
        with pytest.raises(PermissionError):
            store.save("https://a.example/2", token)
    assert store.get("https://a.example/1") == token


@contextlib.asynccontextmanager
async def mix_up(
    wire: WireServer, folder: Path, *endpoints: str
) -> AsyncIterator[tuple[ServerSession, Authority, ScriptedServer]]:
    """Open a session with a server that names these endpoints at another address."""
    async with signed_out(wire, folder) as (on, authority), scripted_server() as other:
        elsewhere = other.url.removesuffix("/mcp")
        authority.metadata_overrides = {name: f"{elsewhere}/{name.removesuffix('_endpoint')}" for name in endpoints}
        other.overrides["/token"] = authority.token
        yield on, authority, other


def no_code_was_requested(authority: Authority, *played: ScriptedServer) -> bool:
    """Return whether the browser was not opened and no token endpoint received a request."""
    paths = [request.path for each in (authority.played, *played) for request in each.requests]
    return authority.asked == {} and "/token" not in paths


async def test_another_origin_is_refused_headless(wire: WireServer, tmp_path: Path) -> None:
    async with mix_up(wire, tmp_path) as (on, authority, other):
        elsewhere = other.url.removesuffix("/mcp")
        for endpoint in ("authorization_endpoint", "token_endpoint", "registration_endpoint"):
            authority.metadata_overrides = {endpoint: f"{elsewhere}/{endpoint.removesuffix('_endpoint')}"}
            with pytest.raises(ConnectionLost, match=rf"\(.*{elsewhere}.*\): sign in from the app") as refused:
                await on.server("far").sign_in(authority.browse)
            assert "\n" not in str(refused.value)
            assert no_code_was_requested(authority, other)


@pytest.mark.parametrize("agrees", [True, False])
async def test_other_origin_requires_confirmation(agrees: bool, wire: WireServer, tmp_path: Path) -> None:
    async with mix_up(wire, tmp_path, "token_endpoint") as (on, authority, other):
        asked: list[dict[str, str]] = []

        async def confirm(roles: Mapping[str, str]) -> bool:
            assert no_code_was_requested(authority, other)
            asked.append(dict(roles))
            return agrees

        if agrees:
            await on.server("far").sign_in(authority.browse, confirm)
            assert on.server("far").state is McpServerState.READY
            assert "/token" in [request.path for request in other.requests]
        else:
            with pytest.raises(ConnectionLost, match="you did not agree"):
                await on.server("far").sign_in(authority.browse, confirm)
            assert no_code_was_requested(authority, other)
        own = authority.origin
        assert asked == [
            {
                "server": own,
                "issuer": own,
                "sign-in page": own,
                "code and refresh token go to": other.url.removesuffix("/mcp"),
                "registration": own,
            }
        ]


async def test_issuer_of_another_origin_requires_confirmation(wire: WireServer, tmp_path: Path) -> None:
    async with scripted_server() as honest, signed_out(wire, tmp_path) as (on, authority):
        elsewhere = honest.url.removesuffix("/mcp")
        for path in ("/.well-known/oauth-authorization-server", "/register", "/token"):
            honest.overrides[path] = authority.played.overrides.pop(path)
        resource = answering({"resource": authority.played.url, "authorization_servers": [elsewhere]})
        authority.played.overrides["/.well-known/oauth-protected-resource/mcp"] = resource
        authority.origin = elsewhere
        with pytest.raises(ConnectionLost, match=f"issuer {elsewhere}"):
            await on.server("far").sign_in(authority.browse)
        assert no_code_was_requested(authority, honest)

        async def agree(roles: Mapping[str, str]) -> bool:
            return roles["server"] != roles["issuer"] == elsewhere

        await on.server("far").sign_in(authority.browse, agree)
        assert on.server("far").state is McpServerState.READY


async def test_metadata_that_cannot_be_trusted_is_refused(wire: WireServer, tmp_path: Path) -> None:
    async def agree(roles: Mapping[str, str]) -> bool:
        return True

    async with signed_out(wire, tmp_path) as (on, authority):
        own, port = authority.origin, urlsplit(authority.origin).port
        issuers = (f"{own}/tenant", f"{own}.evil.example", "https://honest.example", None)
        endpoints = ("authorization_endpoint", "token_endpoint", "registration_endpoint")
        refusals: list[tuple[str, dict[str, Any]]] = [
            *(("as its issuer", {"issuer": each}) for each in issuers),
            *(("is no address", {"authorization_endpoint": each.format(port=port)}) for each in AMBIGUOUS),
            *(("is no address", {each: "https://["}) for each in endpoints),
            ("is not encrypted", {"authorization_endpoint": "http://evil.example/a"}),
            ("PKCE", {"code_challenge_methods_supported": ["plain"]}),
        ]
        for why, metadata_overrides in refusals:
            authority.metadata_overrides = metadata_overrides
            with pytest.raises(ConnectionLost, match=why):
                await on.server("far").sign_in(authority.browse, agree)
            assert no_code_was_requested(authority), metadata_overrides


AMBIGUOUS = (
    # A browser treats the backslash as a slash, and the text before it as the host.
    "https://honest.example\\@127.0.0.1:{port}/authorize",
    "https://honest.example@127.0.0.1:{port}/authorize",
    "https:honest.example/authorize",
    "https:///honest.example/authorize",
    "https://127.0.0.1:{port}/authorize#x",
    "https://127.0.0.1:{port}/auth\torize",
    "https://h%6fnest.example/authorize",
    "https://hоnest.example/authorize",
)


async def ask_to_sign_in(run: Running) -> None:
    await run.command("mcp")
    await run.screen("McpServersScreen")
    await run.see("you have to sign in")
    await run.pilot.press("ctrl+s")


@pytest.mark.parametrize("size", [(140, 44), (60, 20)], ids=["wide", "narrow"])
async def test_the_screen_names_each_address_before_it_opens_the_browser(
    size: tuple[int, int], wire: WireServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with scripted_server() as played, scripted_server() as other:
        authority = Authority(played)
        authority.metadata_overrides = {"token_endpoint": other.url}
        other.overrides["/mcp"] = authority.token
        async with running(tmp_path, wire, size=size, mcp={"far": {"url": played.url}}) as run:
            opened: list[str] = []
            monkeypatch.setenv("DISPLAY", ":0")
            monkeypatch.setattr(run.app, "open_url", lambda location, **_: opened.append(location))
            await ask_to_sign_in(run)
            await run.screen("ConfirmScreen")
            await run.see(f"sign-in page: {authority.origin}", f"go to: {other.url.removesuffix('/mcp')}")
            await run.pilot.press("enter")
            await run.screen("ConfirmScreen")
            await run.pilot.press("escape")
            await run.screen("McpServersScreen")
            await run.told("You are not signed in.")
            assert not opened
            await run.pilot.press("ctrl+s")
            await run.screen("ConfirmScreen")
            await run.see("sign-in page")
            await run.pilot.press("y")
            await run.screen("SignInWaitScreen")
            await run.until(lambda: bool(opened), "the browser")
            await run.see("Your browser was opened at", "paste it here")
            async with httpx2.AsyncClient() as client:
                await client.get(authority.callback_url(opened[0]))
            await run.until(lambda: server_of(run, "far").state is McpServerState.READY, "the server")
            await run.see("1 of 1 ready")


@pytest.mark.parametrize("size", [(140, 44), (60, 20)], ids=["wide", "narrow"])
async def test_address_is_pasted_in_an_ssh_session(
    size: tuple[int, int], wire: WireServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("SSH_CONNECTION", "10.0.0.9 51000 10.0.0.1 2222")
    monkeypatch.setattr("getpass.getuser", lambda: "me")
    async with scripted_server() as played:
        authority = Authority(played)
        played.challenge += f', scope="{" ".join(["read:everything"] * 100)}"'
        async with running(tmp_path, wire, size=size, mcp={"far": {"url": played.url}}) as run:
            copied: list[str] = []
            monkeypatch.setattr(run.app, "copy_to_clipboard", copied.append)
            await ask_to_sign_in(run)
            await run.screen("SignInWaitScreen")
            await run.pilot.press("ctrl+y")
            ended = authority.callback_url(copied[0])
            port = urlsplit(authority.asked["redirect_uri"]).port
            # There is room for the other lines with an address of any length.
            await run.see("Open this address in your browser", "Paste", f"http://127.0.0.1:{port}/callback?")
            assert f"ssh -N -L {port}:127.0.0.1:{port} -p 2222 me@10.0.0.1" in " ".join(run.text.split())
            run.app.screen.query_one(Input).value = "something else"
            await run.pilot.press("enter")
            await run.see("That is not the address at the end")
            run.app.screen.query_one(Input).value = ended
            await run.pilot.press("enter")
            await run.until(lambda: server_of(run, "far").state is McpServerState.READY, "the server")
            await run.screen("McpServersScreen")


async def test_a_cancelled_sign_in_ends_at_once(wire: WireServer, tmp_path: Path) -> None:
    async with scripted_server() as played:
        authority = Authority(played)
        async with running(tmp_path, wire, mcp={"far": {"url": played.url}}) as run:
            await run.command("mcp")
            await run.screen("McpServersScreen")
            await run.see("you have to sign in")
            for _ in range(2):
                await run.pilot.press("ctrl+s")
                await run.screen("SignInWaitScreen")
                await run.pilot.press("escape")
                await run.screen("McpServersScreen")
            assert authority.forms == []
            authority.metadata_overrides = {"code_challenge_methods_supported": ["plain"]}
            await run.pilot.press("ctrl+s")
            await run.told("You are not signed in.")
            await run.told("PKCE")
