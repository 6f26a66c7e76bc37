"""TOML from anyone: what the parser would chew on for minutes is refused."""

import pytest

from app.config.toml import parse_toml


def test_what_people_write_is_read() -> None:
    content = b'theme = "nord"\n# ' + b"." * 300 + b'\n[headers]\n"X-Long" = "' + b"y" * 5000 + b'"\n'
    assert parse_toml(content)["theme"] == "nord"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"a" + b".a" * 400_000 + b" = 1", "too many dots"),
        (b"[a" + b".a" * 400_000 + b"]", "too many dots"),
        (b"a = " + b"[" * 100_000, "nested"),
        (b"a = \xff", "utf-8"),
        (b"a = ", "Invalid value"),
    ],
    ids=["key", "table", "array", "bytes", "syntax"],
)
def test_what_is_none_or_too_much_is_refused(content: bytes, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        parse_toml(content)
