"""Exceptions: one line for the user, details for the log."""

from pathlib import Path

from app.proposals.values.proposal_errors import UnknownProposal
from app.ui.context.app_context import append_to_error_log, describe_and_log_error


def test_expected_error_is_shown_in_its_words_and_not_logged(tmp_path: Path) -> None:
    log = tmp_path / "signoff.log"
    assert describe_and_log_error(UnknownProposal("there is no proposal P9"), log) == "there is no proposal P9"
    assert not log.exists()


def test_a_defect_is_logged_for_the_user_alone(tmp_path: Path) -> None:
    log = tmp_path / "state" / "signoff.log"

    def defect() -> None:
        secret = "sk-value"
        raise ValueError(f"broken {len(secret)}")

    try:
        defect()
    except ValueError as error:
        line = describe_and_log_error(error, log)
    assert "\n" not in line and "ValueError" in line and str(log) in line
    assert "broken 8" in log.read_text()
    assert log.stat().st_mode & 0o777 == 0o600


def test_a_log_that_cannot_be_written_does_no_harm(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert not append_to_error_log("text", tmp_path / "file" / "signoff.log")
    target = tmp_path / "elsewhere"
    target.write_text("mine")
    (tmp_path / "signoff.log").symlink_to(target)
    assert not append_to_error_log("text", tmp_path / "signoff.log")
    assert target.read_text() == "mine"


def test_the_error_log_keeps_earlier_entries_within_a_size_limit(tmp_path: Path) -> None:
    log = tmp_path / "signoff.log"
    assert append_to_error_log("a message that was never sent", log) and append_to_error_log("a defect", log)
    assert "a message that was never sent" in log.read_text() and "a defect" in log.read_text()
    log.write_bytes(b"x" * (2**20 + 1))
    assert append_to_error_log("the latest", log)
    assert log.stat().st_size < 1_000 and "the latest" in log.read_text()
