"""Who the user is to one server: the token that goes with each request, renewed when it has ended."""

import asyncio
from collections.abc import Mapping

import httpx2

from app.servers.connection import ConnectionLost
from app.servers.http import certificates
from app.servers.sign_in import Confirm, Show, SignIn, SignInFailed, SignInRefused
from app.servers.tokens import Token, Tokens


class SignedIn:
    """At one address."""

    def __init__(self, url: str, tokens: Tokens, client_id: str) -> None:
        """`tokens` is where they are kept."""
        self._url = url
        self._tokens = tokens
        self._client_id = client_id
        self._renewing = asyncio.Lock()
        self._sent = ""
        """The token that went with the last request."""

    async def headers(self) -> Mapping[str, str]:
        """What goes with a request; empty where the user has not signed in. Raises ConnectionLost."""
        async with self._renewing:
            token = await self._kept()
            if token is not None and token.has_ended:
                token = await self._renewed(token)
            self._sent = token.access_token if token else ""
        return {"Authorization": f"Bearer {token.access_token}"} if token else {}

    async def renew(self) -> bool:
        """Get another token, since the server does not take the last; whether there is one. Raises ConnectionLost."""
        async with self._renewing:
            token = await self._kept()
            if token is not None and token.access_token != self._sent:
                # Another window has renewed it meanwhile.
                return True
            return token is not None and await self._renewed(token) is not None

    async def sign_in(self, challenge: str, show: Show, confirm: Confirm | None) -> None:
        """Have the user sign in, as `SignIn.begin`; raises SignInFailed."""
        async with httpx2.AsyncClient(verify=certificates()) as client:
            token = await SignIn(self._url, client, client_id=self._client_id).begin(challenge, show, confirm)
        await self._keep(token)

    async def _renewed(self, token: Token) -> Token | None:
        """Another token; None where the user has to sign in. Raises ConnectionLost where that is not known."""
        try:
            return await self._asked_anew(token)
        except SignInFailed as error:
            # Whoever is offline for a moment is not signed out.
            raise ConnectionLost(f"the sign-in could not be renewed: {error}") from error

    async def _asked_anew(self, token: Token) -> Token | None:
        try:
            async with httpx2.AsyncClient(verify=certificates()) as client:
                renewed: Token | None = await SignIn(self._url, client).renew(token)
        except SignInRefused:
            # One that can be used once may have been used by another window.
            other = await self._kept()
            if other is not None and other.access_token != token.access_token:
                return other
            renewed = None
        await self._keep(renewed)
        return renewed

    async def _kept(self) -> Token | None:
        return await asyncio.to_thread(self._tokens.get, self._url)

    async def _keep(self, token: Token | None) -> None:
        try:
            await asyncio.to_thread(self._tokens.keep, self._url, token)
        except OSError as error:
            raise SignInFailed(f"the token cannot be kept: {error.strerror}") from error
