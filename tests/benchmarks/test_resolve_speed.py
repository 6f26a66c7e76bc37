"""Resolving 200 edits in a 20,000-line file: tolerant ones against the same edits as exact ones."""

import random
import time

import pytest

from app.proposals.locate.matching import Replacement, apply_replacements
from app.proposals.text.document import Document
from app.proposals.values.models import MatchLevel
from app.proposals.values.proposal_errors import NoMatch

LINES = 20_000
EDITS = 200
MOST_TIMES_EXACT = 8


def source() -> list[str]:
    chance = random.Random(3)
    common = ["", "    }", "    return None", "        pass"]
    return [
        chance.choice(common) if chance.random() < 0.2 else f"    value_{at} = call(first, {chance.randrange(999)})"
        for at in range(LINES)
    ]


def edits(lines: list[str], rung: MatchLevel) -> list[Replacement]:
    """Seven-line blocks, the middle line changed, written as sloppily as the rung allows."""
    result = []
    step = LINES // EDITS
    for number in range(EDITS):
        start = number * step
        while not all("call" in lines[start + at] for at in (0, 1, 3, 6)):
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
        wanted = [*block[:3], block[3].replace("call", "changed"), *block[4:]]
        result.append(Replacement("\n".join(block), "\n".join(wanted)))
    return result


def seconds(document: Document, replacements: list[Replacement], rung: MatchLevel) -> float:
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
def test_tolerant_rungs_against_exact(rung: MatchLevel) -> None:
    lines = source()
    document = Document("\n".join([*lines, ""]).encode())
    exact = seconds(document, edits(lines, MatchLevel.EXACT), MatchLevel.EXACT)
    tolerant = seconds(document, edits(lines, rung), rung)
    print(
        f"{EDITS} edits: exact {exact * 1000:.0f} ms, {rung} {tolerant * 1000:.0f} ms, ratio {tolerant / exact:.1f}"
    )
    assert tolerant < MOST_TIMES_EXACT * exact


def test_a_refusal_costs_a_few_times_the_200_edits_at_most() -> None:
    """The search for the nearest text is what a refusal adds."""
    lines = source()
    document = Document("\n".join([*lines, ""]).encode())
    exact = seconds(document, edits(lines, MatchLevel.EXACT), MatchLevel.EXACT)
    block = [line.replace("value", "vault") for line in lines[500:520]]
    start = time.perf_counter()
    with pytest.raises(NoMatch):
        apply_replacements(Document(document.data), [Replacement("\n".join(block), "x")])
    refused = time.perf_counter() - start
    print(f"refusal {refused * 1000:.0f} ms, {EDITS} exact edits {exact * 1000:.0f} ms")
    assert refused < 4 * exact
