"""Signing in to a server in the browser: PKCE, a port of this machine, tokens that nobody else sees."""

import asyncio
import base64
import contextlib
import hashlib
import json
import stat
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import httpx2
import pytest

from app.servers.connection import ConnectionLost
from app.servers.server import State
from app.servers.tokens import Tokens
from tests.servers.address import Address, Heard, address, document
from tests.servers.stage import Stage, stage
from tests.servers.test_screens import server_of
from tests.ui.running_app import running
from tests.wire.server import WireServer


class Authority:
    """An authorization server, at the same address as what it protects."""

    def __init__(self, played: Address) -> None:
        self.played = played
        self.origin = played.url.removesuffix("/mcp")
        self.asked: dict[str, str] = {}
        self.forms: list[dict[str, str]] = []
        self.lasts = 3600
        self.methods = ["S256"]
        played.token = "access-1"
        where = "/.well-known/oauth-protected-resource/mcp"
        played.challenge = f'Bearer resource_metadata="{self.origin}{where}"'
        played.tricks[where] = self.resource
        played.tricks["/.well-known/oauth-authorization-server"] = self.metadata
        played.tricks["/register"] = self.register
        played.tricks["/token"] = self.token

    async def resource(self, heard: Heard, writer: asyncio.StreamWriter) -> None:
        said = {"resource": self.played.url, "authorization_servers": [self.origin], "scopes_supported": ["use"]}
        writer.write(document(json.dumps(said).encode()))

    async def metadata(self, heard: Heard, writer: asyncio.StreamWriter) -> None:
        said = {
            "issuer": self.origin,
            "authorization_endpoint": f"{self.origin}/authorize",
            "token_endpoint": f"{self.origin}/token",
            "registration_endpoint": f"{self.origin}/register",
            "code_challenge_methods_supported": self.methods,
        }
        writer.write(document(json.dumps(said).encode()))

    async def register(self, heard: Heard, writer: asyncio.StreamWriter) -> None:
        assert heard.message["redirect_uris"][0].startswith("http://127.0.0.1:")
        writer.write(document(b'{"client_id": "c1"}', status=201))
        # A registration is an answer of 201.

    async def token(self, heard: Heard, writer: asyncio.StreamWriter) -> None:
        form = {key: values[0] for key, values in parse_qs(heard.body.decode()).items()}
        self.forms.append(form)
        if form["grant_type"] == "authorization_code":
            digest = hashlib.sha256(form["code_verifier"].encode()).digest()
            assert base64.urlsafe_b64encode(digest).rstrip(b"=").decode() == self.asked["code_challenge"]
            assert form["code"] == "code-1"
        else:
            assert form["refresh_token"] == "refresh-1"
            self.played.token = "access-2"
        said = {"access_token": self.played.token, "refresh_token": "refresh-1", "expires_in": self.lasts}
        writer.write(document(json.dumps(said).encode()))

    async def browse(self, location: str, **answer: str) -> None:
        """What a user does in the browser."""
        self.asked = {key: values[0] for key, values in parse_qs(urlsplit(location).query).items()}
        given = {"code": "code-1", "state": self.asked["state"], **answer}
        async with httpx2.AsyncClient() as client:
            await client.get(f"{self.asked['redirect_uri']}?{urlencode(given)}")


@contextlib.asynccontextmanager
async def signed_out(wire: WireServer, folder: Path) -> AsyncIterator[tuple[Stage, Authority]]:
    """A session with a server that wants the user to sign in."""
    async with address() as played:
        authority = Authority(played)
        async with stage(wire, folder, {"far": {"url": played.url}}) as on:
            await on.until(lambda: on.server("far").state is State.SIGN_IN)
            yield on, authority


async def test_the_user_signs_in_and_stays_signed_in(wire: WireServer, tmp_path: Path) -> None:
    async with signed_out(wire, tmp_path) as (on, authority):
        await on.server("far").sign_in(authority.browse)
        assert on.server("far").state is State.READY
        assert authority.asked["resource"] == authority.played.url
        assert authority.asked["scope"] == "use"
        assert await on.say(("far__echo", {"text": "hello"})) == "hello"
        file = on.host.runtime.places.tokens
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert "access-1" in file.read_text()
        # It is nowhere else: not in the database, not in what the model is told, not in a log.
        session = on.host.session
        assert session is not None
        assert "access-1" not in str(session.log.events) + str(on.server("far").log.lines) + str(wire.last.body)
        assert b"access-1" not in on.host.runtime.places.database.read_bytes()
        flags = {"mcp": {"far": {"url": authority.played.url}}}
        async with stage(wire, tmp_path, flags["mcp"]) as again:
            await again.ready("far")


async def test_a_token_is_renewed_when_it_has_ended_or_is_not_taken(wire: WireServer, tmp_path: Path) -> None:
    async with signed_out(wire, tmp_path) as (on, authority):
        await on.server("far").sign_in(authority.browse)
        tokens = Tokens(on.host.runtime.places.tokens)
        kept = tokens.get(authority.played.url)
        assert kept is not None
        tokens.keep(authority.played.url, kept.model_copy(update={"expires": time.time() - 1}))
        assert await on.say(("far__echo", {"text": "one"})) == "one"
        assert [form["grant_type"] for form in authority.forms] == ["authorization_code", "refresh_token"]
        authority.played.token = "another"
        assert await on.say(("far__echo", {"text": "two"})) == "two"
        assert len(authority.forms) == 3


async def test_one_that_cannot_be_renewed_wants_a_sign_in(wire: WireServer, tmp_path: Path) -> None:
    async with signed_out(wire, tmp_path) as (on, authority):
        await on.server("far").sign_in(authority.browse)

        async def refuse(heard: Heard, writer: asyncio.StreamWriter) -> None:
            writer.write(document(b'{"error": "invalid_grant"}', status=400))

        authority.played.tricks["/token"] = refuse
        authority.played.token = "another"
        assert "you have to sign in: /mcp" in await on.say(("far__echo", {"text": "two"}))
        assert on.server("far").state is State.SIGN_IN
        assert Tokens(on.host.runtime.places.tokens).get(authority.played.url) is None


@pytest.mark.parametrize(
    ("answer", "why"),
    [({"error": "access_denied", "code": ""}, "access_denied"), ({"iss": "https://evil.example"}, "somebody else")],
)
async def test_what_comes_back_is_looked_at(
    answer: dict[str, str], why: str, wire: WireServer, tmp_path: Path
) -> None:
    async with signed_out(wire, tmp_path) as (on, authority):

        async def browse(location: str) -> None:
            await authority.browse(location, **answer)

        with pytest.raises(ConnectionLost, match=why):
            await on.server("far").sign_in(browse)
        assert not on.host.runtime.places.tokens.exists()


async def test_whoever_does_not_know_the_state_is_not_heard(wire: WireServer, tmp_path: Path) -> None:
    async with signed_out(wire, tmp_path) as (on, authority):

        async def browse(location: str) -> None:
            await authority.browse(location, state="guessed", code="stolen")
            await authority.browse(location)

        await on.server("far").sign_in(browse)
        assert authority.forms[0]["code"] == "code-1"


async def test_addresses_that_are_not_encrypted_are_refused(wire: WireServer, tmp_path: Path) -> None:
    async with signed_out(wire, tmp_path) as (on, authority):

        async def metadata(heard: Heard, writer: asyncio.StreamWriter) -> None:
            said: dict[str, Any] = {"issuer": authority.origin, "authorization_endpoint": "http://evil.example/a"}
            writer.write(document(json.dumps(said).encode()))

        authority.played.tricks["/.well-known/oauth-authorization-server"] = metadata
        with pytest.raises(ConnectionLost, match="is not encrypted"):
            await on.server("far").sign_in(authority.browse)


async def test_without_pkce_nobody_signs_in(wire: WireServer, tmp_path: Path) -> None:
    async with signed_out(wire, tmp_path) as (on, authority):
        authority.methods = ["plain"]
        with pytest.raises(ConnectionLost, match="PKCE"):
            await on.server("far").sign_in(authority.browse)


async def test_a_key_begins_it_on_the_screen(
    wire: WireServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with address() as played:
        authority = Authority(played)
        async with running(tmp_path, wire, mcp={"far": {"url": played.url}}) as run:
            opened: list[str] = []
            monkeypatch.setenv("DISPLAY", ":0")
            monkeypatch.setattr(run.app, "open_url", lambda location, **_: opened.append(location))
            await run.command("mcp")
            await run.screen("ServersScreen")
            await run.see("you have to sign in")
            await run.pilot.press("ctrl+s")
            await run.until(lambda: bool(opened), "the browser")
            await run.see("signoff: sign in at")
            await authority.browse(opened[0])
            await run.until(lambda: server_of(run, "far").state is State.READY, "the server")
            await run.see("1 of 1 ready")
