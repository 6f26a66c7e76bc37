"""The texts that a search requires: every line that matches contains one of them."""

import re
import warnings

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.tools.search.required_texts import find_required_alternatives

PARTS = [
    *("a", "b", "i", "S", ".", r"\.", r"\w", r"\x61", r"\141", r"\N{LATIN SMALL LETTER A}", r"\b", "^", "$", " "),
    *("[ab]", "[^a]", "[]b]", "[^]b]", r"[\]b]", "[[b]", "(", "(?:", "(?P<n>", "(?>", "(?=", "(?!", "(?<=", "(?<!"),
    *(")", ")", ")", "|", "|", "*", "+", "?", "*?", "++", "{2}", "{0}", "{1,2}", "{,2}", "{2,}?", "{", "{b}", "}"),
    *("(?P=n)", r"\1", "(?(1)", "(?i:", "(?-i:", "(?#c)", "(?x: ", "#", "(?s:"),
]


@pytest.mark.parametrize(
    ("pattern", "texts"),
    [
        (r"^def\s+test_\w+\(", {"test_"}),
        ("TODO|FIXME", {"TODO", "FIXME"}),
        (r"\b(?P<kind>class|struct) (Foo|Bar)Service\b", {"Service"}),
        ("(one|two|)", set()),
        ("colou?r", {"colo"}),
        ("(ab){2,}c*", {"ab"}),
        (r"\$\{name\}", {"${name}"}),
        ("x{,3}yz", {"yz"}),
        (r"\d+-\d+", {"-"}),
        (r"\x41\u0042c", {"c"}),
        ("(?P<n>a)(?P=n)bc", {"bc"}),
        (r"\N{LATIN SMALL LETTER A}b", {"b"}),
        ("(?=one)two(?<!three)", {"two"}),
        ("(?x) a b", set()),
        ("ab(?#no)*", set()),
        ("[a-z]+", set()),
        ("[ab", set()),
        ("ab(cd", set()),
        ("ab\\\ncd", set()),
    ],
)
def test_the_most_selective_part_of_an_expression(pattern: str, texts: set[str]) -> None:
    assert find_required_alternatives(pattern, regex=True, ignore_case=False) == (frozenset(texts), False)


def test_the_required_text_is_in_every_encoding_and_folded_if_any_part_says_so() -> None:
    assert find_required_alternatives("naïve (cafés)", regex=False, ignore_case=True) == (
        frozenset({"ve (caf"}),
        True,
    )
    assert find_required_alternatives("é", regex=False, ignore_case=False) == (frozenset(), False)
    assert find_required_alternatives("(?i)one", regex=True, ignore_case=False) == (frozenset({"one"}), True)
    assert find_required_alternatives("one(?i:two)", regex=True, ignore_case=False)[1]


@given(
    st.lists(st.sampled_from(PARTS), min_size=1, max_size=8).map("".join),
    st.text("abIsS. {}#|\u0130\u0131\u017f\u00b2", max_size=8),
    st.booleans(),
)
def test_every_match_contains_a_required_text(pattern: str, line: str, ignore_case: bool) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            expression = re.compile(pattern, re.IGNORECASE if ignore_case else 0)
        except re.error:
            return
    texts, folded = find_required_alternatives(pattern, regex=True, ignore_case=ignore_case)
    if texts and expression.search(line):
        assert any(re.search(re.escape(text), line, re.IGNORECASE if folded else 0) for text in texts)
