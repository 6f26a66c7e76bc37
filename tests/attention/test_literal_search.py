"""Patterns with a literal prefilter find the same matches as their expressions, in lines of any length."""

from collections.abc import Iterator
from importlib import import_module
from pkgutil import iter_modules
from re._parser import parse  # type: ignore[import-not-found]
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from app.proposals import risk
from app.proposals.risk.edited_file import PrefilteredPattern
from app.proposals.values.attention_reason import ReasonKind
from app.proposals.values.models import Proposal
from tests.attention.commits import as_proposal
from tests.examples import scale_examples


def all_patterns() -> Iterator[tuple[str, PrefilteredPattern]]:
    for module in iter_modules(risk.__path__):
        for name, value in vars(import_module(f"{risk.__name__}.{module.name}")).items():
            patterns = value if isinstance(value, dict) else {"": value}
            for key, pattern in patterns.items():
                if isinstance(pattern, PrefilteredPattern):
                    yield f"{module.name}.{name}{f'[{key}]' if key else ''}", pattern


CUT = "\uffff"
PATTERNS = dict(all_patterns())
PIECES = [
    *"aZ_19 .:;,()[]{}\n\t'\"#=!<>-@/$|\u017f\u0130\u212aé漢\U0001f600",
    "secret",
    "SECRET",
    "return ",
    "err",
    "def ",
]


def test_prefiltered_patterns_are_collected() -> None:
    assert len(PATTERNS) > 35


@pytest.mark.parametrize("name", PATTERNS)
@given(data=st.data())
def test_matches_equal_those_of_the_expression(name: str, data: st.DataObject) -> None:
    pattern = PATTERNS[name]
    matching = st.from_regex(pattern.expression)
    other = st.lists(st.sampled_from(PIECES), max_size=8).map("".join)
    text = "".join(data.draw(st.lists(st.one_of(matching, other), max_size=4)))
    expected = [(match.span(), match.groups()) for match in pattern.expression.finditer(text)]
    assert [(match.span(), match.groups()) for match in pattern.finditer(text)] == expected
    first = pattern.search(text)
    assert (first.span() if first else None) == (expected[0][0] if expected else None)


def beginnings(parsed: Any) -> set[str]:
    """Return the possible beginnings of matches, up to the first part with too many alternatives to list."""
    texts, complete = {""}, set[str]()
    for kind, value in parsed:
        match str(kind):
            case "AT" | "ASSERT" | "ASSERT_NOT":
                continue
            case "LITERAL":
                alternatives = {chr(value)}
            case "IN" if all(str(inner) == "LITERAL" for inner, _ in value):
                alternatives = {chr(code) for _, code in value}
            case "BRANCH":
                alternatives = {text for branch in value[1] for text in beginnings(branch)}
            case "SUBPATTERN":
                alternatives = beginnings(value[-1])
            case "MAX_REPEAT" if value[1] == 1:
                alternatives = {"", *beginnings(value[2])}
            case _:
                break
        # Truncated texts end with a mark and are not extended.
        complete |= {beginning for beginning in texts if beginning.endswith(CUT)}
        texts = {beginning + more for beginning in texts - complete for more in alternatives}
    else:
        return texts | complete
    return {text if text.endswith(CUT) else text + CUT for text in texts | complete}


@pytest.mark.parametrize("name", PATTERNS)
def test_every_match_begins_with_one_of_the_literals(name: str) -> None:
    pattern = PATTERNS[name]
    for branch in branches(parse(pattern.expression.pattern)):
        if str(branch[0][1]) == "AT_BEGINNING":
            continue
        for beginning in beginnings(branch):
            text = beginning.rstrip(CUT)
            assert any(text.startswith(start) for start in pattern.starts), text


def branches(parsed: Any) -> list[Any]:
    """Return the alternatives of a parsed expression."""
    if len(parsed) == 1 and str(parsed[0][0]) == "BRANCH":
        return list(parsed[0][1][1])
    return [parsed]


AROUND = ["", "a", "a ", "a)", "a;", ";", "1", " ", "=", "!", "<", "is ", "(", "in", '"']
OPERATORS = ["", "==", "!=", "===", "<", "<=", "!", "- 1", "+ 1", " -1", "is not", "not", " in ", " and ", "not in"]


@settings(max_examples=scale_examples(120))
@example("a", " ", "- 1", "+ 1", ";", "")
@example("a", "", "<", "<=", "=", "")
@given(*[st.sampled_from(pieces) for pieces in (AROUND, AROUND, OPERATORS, OPERATORS, AROUND, AROUND)])
def test_cutting_a_pair_of_lines_does_not_hide_operators(a: str, b: str, old: str, new: str, c: str, d: str) -> None:
    """With a second pair of lines, nothing is cut."""
    old_line, new_line = f"x{a}{b}{old}{c}{d}y", f"x{a}{b}{new}{c}{d}y"
    alone, beside = (
        as_proposal({"a.x": (f"{old_line}\n{more}", f"{new_line}\n{other}")})
        for more, other in (("", ""), ("q\n", "e\n"))
    )
    assert has_operators(alone) == has_operators(beside), (old_line, new_line)


def has_operators(proposal: Proposal) -> bool:
    return any(reason.kind is ReasonKind.OPERATORS for reason in proposal.reasons)
