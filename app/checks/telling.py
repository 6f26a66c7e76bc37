"""What the model is told of checks: the findings, and of long output the end."""

from collections.abc import Iterable

from app.checks.results import Checked, Result

_MOST = 4_000
"""Characters of one check's output."""
_FINDINGS = 30


def findings_as_feedback(checked: Checked) -> str:
    """What the checks that speak against a proposal found, as words that the user sends."""
    return "\n\n".join(_said(result) for result in checked.red)


def told_in_result(results: Iterable[Result]) -> str:
    """The same, to be added to the result of a staging step; empty where nothing speaks against it.

    Tools print whatever the code under test says, so it is a result of a tool and never an instruction of ours.
    """
    red = [_said(result) for result in results if result.red]
    if not red:
        return ""
    head = (
        "Checks of what you staged have failed. It stays staged and waits for the user; tell the user what is wrong."
    )
    return "\n\n".join((head, *red))


def _said(result: Result) -> str:
    """What one check found: what it came to, the places that are new, and its output between fences."""
    assert result.outcome is not None
    head = f"The check {result.name} fails on this proposal: {result.words}."
    places = [f"{one.path}:{one.line}: {one.text}" for one in result.outcome.findings if one.new]
    lines = places[:_FINDINGS]
    if len(places) > _FINDINGS:
        lines.append(f"and {len(places) - _FINDINGS} more")
    output = result.outcome.output.strip()
    if len(output) > _MOST:
        output = f"…{output[-_MOST:]}"
    return "\n".join((head, *lines, "", "```", output.replace("```", "'''"), "```"))
