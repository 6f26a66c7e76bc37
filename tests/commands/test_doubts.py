"""Why a place is in doubt is told wherever a proposal is printed."""

import argparse
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.cli.proposal_commands import show
from app.cli.proposal_list import list_proposals
from app.runtime.open_workspace import OpenWorkspace, open_runtime

PATCH = "*** Begin Patch\n*** Update File: a.txt\n@@\n+four\n*** End Patch\n"
DOUBT = "Line 4 is in doubt: at the end of the file, as the hunk shows no place."


@pytest.fixture
def runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[OpenWorkspace]:
    monkeypatch.setenv("SIGNOFF_HOME", str(tmp_path / "home"))
    (tmp_path / "ws").mkdir()
    (tmp_path / "ws/a.txt").write_text("one\ntwo\nthree\n")
    opened = open_runtime(tmp_path / "ws", {}, {})
    opened.service.stage_patch(PATCH)
    yield opened
    opened.close()


@pytest.mark.parametrize(("hunks", "as_json"), [(False, False), (True, False), (False, True)])
def test_a_doubt_and_its_reason_are_shown(
    runtime: OpenWorkspace, capsys: pytest.CaptureFixture[str], hunks: bool, as_json: bool
) -> None:
    show(runtime, argparse.Namespace(id="P1", hunks=hunks, json=as_json))
    shown = capsys.readouterr().out
    assert DOUBT in (json.loads(shown)["files"][0]["warnings"] if as_json else shown)


@pytest.mark.parametrize("as_json", [False, True])
def test_a_doubt_and_its_reason_are_listed(
    runtime: OpenWorkspace, capsys: pytest.CaptureFixture[str], as_json: bool
) -> None:
    list_proposals(runtime, argparse.Namespace(all=False, json=as_json, origin=None))
    listed = capsys.readouterr().out
    assert DOUBT in (json.loads(listed)[0]["files"][0]["warnings"] if as_json else listed)
