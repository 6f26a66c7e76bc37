"""Who the user is to one server: the token that goes with each request, renewed when it has ended."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping

import httpx2

from app.servers.sign_in import SignIn, SignInFailed
from app.servers.tokens import Token, Tokens


class SignedIn:
    """At one address."""

    def __init__(self, url: str, tokens: Tokens, client_id: str) -> None:
        """`tokens` is where they are kept."""
        self._url = url
        self._tokens = tokens
        self._client_id = client_id
        self._renewing = asyncio.Lock()

    async def headers(self) -> Mapping[str, str]:
        """What goes with a request; empty where the user has not signed in."""
        async with self._renewing:
            token = await asyncio.to_thread(self._tokens.get, self._url)
            if token is None:
                return {}
            if token.has_ended:
                token = await self._renewed(token)
        return {"Authorization": f"Bearer {token.access_token}"} if token else {}

    async def renew(self) -> bool:
        """Get another token, since the server does not take this one; whether there is one."""
        async with self._renewing:
            token = await asyncio.to_thread(self._tokens.get, self._url)
            return token is not None and await self._renewed(token) is not None

    async def sign_in(self, challenge: str, show: Callable[[str], Awaitable[None]]) -> None:
        """Have the user sign in; raises SignInFailed."""
        async with httpx2.AsyncClient() as client:
            token = await SignIn(self._url, client, client_id=self._client_id).begin(challenge, show)
        await self._keep(token)

    async def _renewed(self, token: Token) -> Token | None:
        try:
            async with httpx2.AsyncClient() as client:
                renewed = await SignIn(self._url, client).renew(token)
        except SignInFailed:
            await self._keep(None)
            return None
        await self._keep(renewed)
        return renewed

    async def _keep(self, token: Token | None) -> None:
        try:
            await asyncio.to_thread(self._tokens.keep, self._url, token)
        except OSError as error:
            raise SignInFailed(f"the token cannot be kept: {error.strerror}") from error
