"""The page of a review, of files that have no lines to show."""

from app.proposals.values.models import FileOperation
from app.runtime.review_report import DeniedChange, ProposalReviewReport
from app.ui.review_page import render_report_html
from tests.ui.sample_diffs import file_diff, proposal


def test_a_review_page_describes_a_file_without_lines() -> None:
    diffs = [
        file_diff("logo.png", None, None, hunks=(), binary=True),
        file_diff("run.sh", "a\n", "a\n", op=FileOperation.MODE),
        file_diff("a.py", "one\n", "two\n"),
    ]
    page = render_report_html(
        ProposalReviewReport(
            proposal("P1", diffs), diffs, "", (), denied_parts=(DeniedChange("b.py", ("b",), ("b",)),)
        )
    )
    binary, mode, edited = page.split("<article>")[1:]
    assert "logo.png" in binary and "<p>A binary file.</p></article>" in binary and "<table>" not in binary
    assert "run.sh" in mode and "No line of it is changed." in mode
    assert edited.count("<table>") == 1 and "b.py" not in page
