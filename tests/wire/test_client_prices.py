"""What a response costs: as the server says it, else by the user's price, else by the server's list of models."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.config.config_tables import PriceTable
from app.config.settings import ConfigError, Settings, validate_setting
from app.llm.capabilities.model_list import add_cost, find_price
from app.llm.capabilities.profiles import resolve_profile
from app.llm.client import ModelClient
from app.llm.values.endpoint import EndpointProfile
from app.llm.values.requests_and_updates import Endpoint, ResponseCompleted, TokenUsage
from app.runtime.model_connection import make_endpoint
from tests.wire.driving import BRISK, FAST, updates_of
from tests.wire.replies import Turn, chunk, document, stream
from tests.wire.server import WireServer
from tests.wire.test_client_wishes import wishing

DEAR = PriceTable(input=1_000, output=10_000, cached=100, cache_write=2_000)
COUNTED = {"prompt_tokens": 100, "completion_tokens": 10, "prompt_tokens_details": {"cached_tokens": 60}}
LISTED = {"id": "m", "pricing": {"prompt": "0.000002", "completion": "0.000008", "input_cache_read": "0.000001"}}


def answering(usage: dict[str, Any]) -> Any:
    return stream(chunk("Hello"), chunk(finish="stop"), {**chunk(), "choices": [], "usage": usage})


async def usage_of(
    server: WireServer, price: PriceTable | None, *, wire: str = "chat", listed: bool = False, cache: Any = None
) -> TokenUsage:
    endpoint = Endpoint(server.base_url, "m", price=price)
    profile = resolve_profile(server.base_url, "m", cache=cache, overrides={"wire": wire})
    client = ModelClient(endpoint, profile, retry=FAST, timeouts=BRISK, cache=cache)
    try:
        if listed:
            await client.list_models()
        completed = (await updates_of(client, wishing()))[-1]
    finally:
        await client.aclose()
    assert isinstance(completed, ResponseCompleted) and completed.usage is not None
    return completed.usage


async def test_the_servers_cost_wins_over_user_price_and_listed_price(server: WireServer) -> None:
    server.route("/v1/models", document({"data": [LISTED]}))
    server.script(
        [answering({**COUNTED, "cost": 0.25}), *[answering(COUNTED)] * 4, answering({**COUNTED, "cost": 0})]
    )
    cache: dict[str, dict[str, Any]] = {}
    assert (await usage_of(server, DEAR)).cost == 0.25
    assert (await usage_of(server, None)).cost is None
    assert (await usage_of(server, DEAR, listed=True)).cost == pytest.approx(
        (40 * 1_000 + 60 * 100 + 10 * 10_000) / 1e6
    )
    cheap = pytest.approx((40 * 2 + 60 * 1 + 10 * 8) / 1e6)
    assert (await usage_of(server, None, listed=True, cache=cache)).cost == cheap
    assert (await usage_of(server, None, cache=cache)).cost == cheap, "remembered"
    assert (await usage_of(server, DEAR)).cost == 0, "free is a price too"


@pytest.mark.parametrize(
    ("wire", "counts"), [("chat", (40, 0, 0, 7)), ("anthropic", (46, 4, 2, 7)), ("responses", (40, 4, 0, 7))]
)
async def test_each_wire_counts_cached_and_plain_tokens_separately(
    server: WireServer, wire: str, counts: tuple[int, int, int, int]
) -> None:
    server.always(Turn("Hello", prompt_tokens=40, completion_tokens=7))
    usage = await usage_of(server, DEAR, wire=wire)
    prompt, cached, written, output = counts
    assert (usage.prompt_tokens, usage.cached_tokens) == (prompt, cached)
    assert (usage.cache_write_tokens, usage.completion_tokens) == (written, output)
    plain = prompt - cached - written
    assert usage.cost == pytest.approx((plain * 1_000 + cached * 100 + written * 2_000 + output * 10_000) / 1e6)


async def test_a_model_list_without_token_prices_gives_no_cost(server: WireServer) -> None:
    for pricing in (
        *(None, "free", {}, {"prompt": "0.000002"}, {"prompt": "x", "completion": "0.1"}),
        *({"prompt": "-1", "completion": "-1"}, {"prompt": True, "completion": "0"}, {"input": 0.27, "output": 1.1}),
        {"prompt": "nan", "completion": "9" * 400},
    ):
        server.route("/v1/models", document({"data": [{"id": "m", "pricing": pricing}]}))
        server.script([answering(COUNTED)])
        assert (await usage_of(server, None, listed=True)).cost is None, pricing


@given(
    st.builds(
        TokenUsage,
        prompt_tokens=st.integers(0, 10**9),
        completion_tokens=st.integers(0, 10**9),
        cached_tokens=st.integers(0, 10**9),
        cache_write_tokens=st.integers(0, 10**9),
    )
)
def test_a_cost_is_never_negative_nor_above_the_highest_price(usage: TokenUsage) -> None:
    cost = add_cost(usage, DEAR).cost
    assert cost is not None
    tokens = usage.prompt_tokens + usage.completion_tokens
    assert 0 <= cost <= tokens * 10_000 / 1e6 + 1e-6
    assert add_cost(usage, None) == usage


def test_a_price_is_found_by_name_then_by_the_most_specific_pattern() -> None:
    one, other = PriceTable(input=1, output=1), PriceTable(input=2, output=2)
    prices = {"*": other, "claude-*": one, "m[1m]": other}
    assert find_price("claude-opus-4-8", prices) == one
    assert find_price("m[1m]", prices) == other
    assert find_price("x", {"claude-*": one}) is None
    settings = Settings(base_url="http://localhost:1/v1", model="claude-opus-4-8", price=prices)
    assert make_endpoint(settings).price == one


def test_an_invalid_price_is_an_error() -> None:
    for price in ({"m": {"input": 1}}, {"m": {"input": -1, "output": 1}}, {"m": 3}):
        with pytest.raises(ConfigError, match=r"price\.m"):
            validate_setting("price", price)
    assert EndpointProfile(price={"input": 1.0, "output": 2.0}).price == {"input": 1.0, "output": 2.0}
    with pytest.raises(ValueError, match="output"):
        EndpointProfile(price={"input": 1.0})
