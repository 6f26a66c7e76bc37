"""What is found by literals is what the expressions find by themselves, however long a line is."""

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
            of_it = value if isinstance(value, dict) else {"": value}
            for key, pattern in of_it.items():
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


def test_the_patterns_are_found() -> None:
    assert len(PATTERNS) > 35


@pytest.mark.parametrize("name", PATTERNS)
@given(data=st.data())
def test_the_matches_are_those_of_the_expression(name: str, data: st.DataObject) -> None:
    pattern = PATTERNS[name]
    matching = st.from_regex(pattern.expression)
    other = st.lists(st.sampled_from(PIECES), max_size=8).map("".join)
    text = "".join(data.draw(st.lists(st.one_of(matching, other), max_size=4)))
    expected = [(found.span(), found.groups()) for found in pattern.expression.finditer(text)]
    assert [(found.span(), found.groups()) for found in pattern.finditer(text)] == expected
    first = pattern.search(text)
    assert (first.span() if first else None) == (expected[0][0] if expected else None)


def beginnings(parsed: Any) -> set[str]:
    """What matches of a parsed expression begin with, up to the first place where too much fits to be listed."""
    found, complete = {""}, set[str]()
    for kind, value in parsed:
        match str(kind):
            case "AT" | "ASSERT" | "ASSERT_NOT":
                continue
            case "LITERAL":
                here = {chr(value)}
            case "IN" if all(str(one) == "LITERAL" for one, _ in value):
                here = {chr(code) for _, code in value}
            case "BRANCH":
                here = {text for branch in value[1] for text in beginnings(branch)}
            case "SUBPATTERN":
                here = beginnings(value[-1])
            case "MAX_REPEAT" if value[1] == 1:
                here = {"", *beginnings(value[2])}
            case _:
                break
        # What is cut short ends with a mark, and nothing comes behind it.
        complete |= {text for text in found if text.endswith(CUT)}
        found = {text + more for text in found - complete for more in here}
    else:
        return found | complete
    return {text if text.endswith(CUT) else text + CUT for text in found | complete}


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
    """The alternatives of a parsed expression."""
    if len(parsed) == 1 and str(parsed[0][0]) == "BRANCH":
        return list(parsed[0][1][1])
    return [parsed]


AROUND = ["", "a", "a ", "a)", "a;", ";", "1", " ", "=", "!", "<", "is ", "(", "in", '"']
OPERATORS = ["", "==", "!=", "===", "<", "<=", "!", "- 1", "+ 1", " -1", "is not", "not", " in ", " and ", "not in"]


@settings(max_examples=scale_examples(120))
@example("a", " ", "- 1", "+ 1", ";", "")
@example("a", "", "<", "<=", "=", "")
@given(*[st.sampled_from(pieces) for pieces in (AROUND, AROUND, OPERATORS, OPERATORS, AROUND, AROUND)])
def test_a_pair_of_lines_is_cut_where_no_operator_is(a: str, b: str, old: str, new: str, c: str, d: str) -> None:
    """Beside a second pair, nothing is cut."""
    was, now = f"x{a}{b}{old}{c}{d}y", f"x{a}{b}{new}{c}{d}y"
    alone, beside = (
        as_proposal({"a.x": (f"{was}\n{more}", f"{now}\n{other}")}) for more, other in (("", ""), ("q\n", "e\n"))
    )
    assert has_operators(alone) == has_operators(beside), (was, now)


def has_operators(proposal: Proposal) -> bool:
    return any(reason.kind is ReasonKind.OPERATORS for reason in proposal.reasons)
