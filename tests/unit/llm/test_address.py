"""Addresses: what is secret in one is taken out, and the rest stays as it was."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.llm.values.address import host_and_port, is_private, parse_address
from app.llm.values.types import Endpoint

WORD = st.text("abcXYZ019-_.~%:", min_size=6, max_size=20)


@pytest.mark.parametrize(
    ("given_url", "url", "bare", "query"),
    [
        ("http://localhost:1/v1", "http://localhost:1/v1", "http://localhost:1/v1", {}),
        (" http://x/v1/ ", "http://x/v1/", "http://x/v1/", {}),
        ("https://u:p@x/v1", "https://x/v1", "https://x/v1", {}),
        ("https://x/v1?api-version=1", "https://x/v1?api-version=1", "https://x/v1", {"api-version": "1"}),
        ("https://x/v1?key=abc", "https://x/v1", "https://x/v1", {"key": "abc"}),
        ("https://x/v1?a=1&Access_Token=t&b=", "https://x/v1?a=1&b=", "https://x/v1", {"a": "1", "b": ""}),
        ("nonsense", "nonsense", "nonsense", {}),
        ("HTTPS://X/v1#a", "HTTPS://X/v1#a", "HTTPS://X/v1#a", {}),
        ("http://u:p@[::1/v1?key=1", "http://[::1/v1", "http://[::1/v1", {}),
        ("", "", "", {}),
    ],
)
def test_the_parts(given_url: str, url: str, bare: str, query: dict[str, str]) -> None:
    address = parse_address(given_url)
    assert (address.url, address.without_query) == (url, bare)
    assert query.items() <= address.query.items()
    assert bool(address.authorization) == ("u:p@x" in given_url)


@pytest.mark.parametrize(
    ("base_url", "host"),
    [
        ("https://Models.example/v1", "models.example"),
        (" http://user:pw@localhost:11434/v1?key=k#f ", "localhost:11434"),
        ("https://a@b@[::1]:8080/k", "[::1]:8080"),
        ("localhost:1/v1", ""),
        ("https://[broken", ""),
        ("", ""),
    ],
)
def test_the_host_is_all_that_the_record_keeps_of_an_address(base_url: str, host: str) -> None:
    assert host_and_port(base_url) == host


@given(WORD, WORD, WORD)
def test_no_secret_is_left_in_what_is_seen(user: str, password: str, key: str) -> None:
    endpoint = Endpoint(
        f"https://{user.replace(':', '')}:@host/v1?token=Q{key}Q".replace(":@", f":Q{password}Q@"), "m"
    )
    assert f"Q{password}Q" not in endpoint.base_url + repr(endpoint)
    assert f"Q{key}Q" not in endpoint.base_url + repr(endpoint)
    assert endpoint.base_url == "https://host/v1"
    assert endpoint.address.authorization.startswith("Basic ")
    assert endpoint.address.query.keys() == {"token"}


@pytest.mark.parametrize(
    ("base_url", "private"),
    [
        *(
            (f"http://{host}:8080/v1", True)
            for host in ("localhost", "127.0.0.1", "[::1]", "10.0.0.7", "192.168.1.2")
        ),
        *((f"http://{host}/v1", True) for host in ("172.16.0.1", "100.64.0.1", "169.254.1.1", "[fd00::1]", "ollama")),
        *(
            (f"https://{host}/v1", True)
            for host in ("gpu.local", "box.lan", "host.docker.internal", "nas.home.arpa.")
        ),
        *((f"https://{host}/v1", False) for host in ("api.openai.com", "8.8.8.8", "[2606:4700::1]", "local.example")),
        *(
            (base_url, False)
            for base_url in ("", "nonsense", "http://[::1", "http://172.32.0.1/v1", "http://0x7f.com/")
        ),
    ],
)
def test_what_is_private_is_told_by_the_address_alone(base_url: str, private: bool) -> None:
    assert is_private(base_url) is private
