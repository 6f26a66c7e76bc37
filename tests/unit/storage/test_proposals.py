"""Reading proposals back."""

from pathlib import Path

from app.proposals.values.models import Proposal
from app.storage.change_signals import ChangeSignal
from app.storage.database import Database
from app.storage.sqlite_proposal_store import SqliteProposalStore


def test_what_is_in_use_is_not_parsed_again_however_much_waits(tmp_path: Path) -> None:
    store = SqliteProposalStore(Database(tmp_path / "db"), "here", ChangeSignal(tmp_path, "here"))
    one = Proposal(id="P1", workspace="here", created=1.0, summary="An edit", files=())
    store.save_proposal(*(one.model_copy(update={"id": f"P{number}"}) for number in range(1, 5_001)))
    held = store.recent()
    assert len(held) == 5_000
    assert all(before is after for before, after in zip(held, store.recent(), strict=True))
    store.save_proposal(one.model_copy(update={"summary": "Another"}))
    assert store.recent()[0].summary == "Another"
