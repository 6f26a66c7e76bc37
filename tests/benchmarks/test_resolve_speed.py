"""Resolving 200 edits in a 20,000-line file: tolerant matches compared with exact matches."""

import random
import time

import pytest

from app.proposals.locate.matching import TextReplacement, apply_replacements
from app.proposals.text.document import Document
from app.proposals.values.models import MatchLevel
from app.proposals.values.proposal_errors import NoMatch

LINES = 20_000
EDITS = 200
MAX_EXACT_RATIO = 8


def source() -> list[str]:
    dice = random.Random(3)
    common = ["", "    }", "    return None", "        pass"]
    return [
        dice.choice(common) if dice.random() < 0.2 else f"    value_{at} = call(first, {dice.randrange(999)})"
        for at in range(LINES)
    ]


def edits(lines: list[str], rung: MatchLevel) -> list[TextReplacement]:
    """Return edits of seven-line blocks with the middle line changed, written as imprecisely as the match level
    allows.
    """
    result = []
    step = LINES // EDITS
    for number in range(EDITS):
        start = number * step
        while not all("call" in lines[start + offset] for offset in (0, 1, 3, 6)):
            start += 1
        block = lines[start : start + 7]
        match rung:
            case MatchLevel.TRAILING_SPACE:
                block = [line + " " for line in block]
            case MatchLevel.INDENTATION:
                block = [line and f"    {line}" for line in block]
            case MatchLevel.SPACING:
                block = [line.replace(", ", ",  ") for line in block]
            case MatchLevel.ALIGNED:
                block[1] = block[1].replace("first", "fist")
        new_lines = [*block[:3], block[3].replace("call", "changed"), *block[4:]]
        result.append(TextReplacement("\n".join(block), "\n".join(new_lines)))
    return result


def seconds(document: Document, replacements: list[TextReplacement], rung: MatchLevel) -> float:
    times = []
    for _ in range(3):
        fresh = Document(document.data)
        start = time.perf_counter()
        _, matches = apply_replacements(fresh, replacements)
        times.append(time.perf_counter() - start)
        assert {match.rung for match in matches} == {rung}
    return min(times)


@pytest.mark.parametrize(
    "rung", [MatchLevel.TRAILING_SPACE, MatchLevel.INDENTATION, MatchLevel.SPACING, MatchLevel.ALIGNED]
)
def test_tolerant_matches_against_exact_matches(rung: MatchLevel) -> None:
    lines = source()
    document = Document("\n".join([*lines, ""]).encode())
    exact = seconds(document, edits(lines, MatchLevel.EXACT), MatchLevel.EXACT)
    tolerant = seconds(document, edits(lines, rung), rung)
    print(
        f"{EDITS} edits: exact {exact * 1000:.0f} ms, {rung} {tolerant * 1000:.0f} ms, ratio {tolerant / exact:.1f}"
    )
    assert tolerant < MAX_EXACT_RATIO * exact


def test_refusal_costs_a_small_multiple_of_200_exact_edits() -> None:
    """A refusal also searches for the nearest text."""
    lines = source()
    document = Document("\n".join([*lines, ""]).encode())
    exact = seconds(document, edits(lines, MatchLevel.EXACT), MatchLevel.EXACT)
    block = [line.replace("value", "vault") for line in lines[500:520]]
    start = time.perf_counter()
    with pytest.raises(NoMatch):
        apply_replacements(Document(document.data), [TextReplacement("\n".join(block), "x")])
    refused = time.perf_counter() - start
    print(f"refusal {refused * 1000:.0f} ms, {EDITS} exact edits {exact * 1000:.0f} ms")
    assert refused < 4 * exact
