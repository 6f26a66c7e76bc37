"""What a match needs: told by reading the expression, and true whatever Python makes of it."""

import re
import warnings

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.tools.search.ripgrep_filter import required_texts

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
def test_of_an_expression_the_most_telling(pattern: str, texts: set[str]) -> None:
    assert required_texts(pattern, regex=True, ignore_case=False) == (frozenset(texts), False)


def test_case_does_not_count_where_any_part_says_so() -> None:
    assert required_texts("(?i)one", regex=True, ignore_case=False) == (frozenset({"one"}), True)
    assert required_texts("one(?i:two)", regex=True, ignore_case=False)[1]


def test_of_a_text_the_longest_part_that_every_encoding_has() -> None:
    assert required_texts("naïve (cafés)", regex=False, ignore_case=True) == (frozenset({"ve (caf"}), True)
    assert required_texts("é", regex=False, ignore_case=False) == (frozenset(), False)


@given(
    st.lists(st.sampled_from(PARTS), min_size=1, max_size=8).map("".join),
    st.text("abIsS. {}#|\u0130\u0131\u017f\u00b2", max_size=8),
    st.booleans(),
)
def test_whatever_matches_has_one_of_them(pattern: str, line: str, ignore_case: bool) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            expression = re.compile(pattern, re.IGNORECASE if ignore_case else 0)
        except re.error:
            return
    texts, folded = required_texts(pattern, regex=True, ignore_case=ignore_case)
    if texts and expression.search(line):
        assert any(re.search(re.escape(text), line, re.IGNORECASE if folded else 0) for text in texts)
