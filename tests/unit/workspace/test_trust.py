"""Trust is bound to the bytes that the user saw."""

from pathlib import Path

import pytest

from app.workspace.paths import UnsafePath, Workspace
from app.workspace.trust import distrust, is_trusted, read_workspace_configuration, trust


class MemoryStore(dict[str, str]):
    """Settings of one workspace, in memory."""

    def setting(self, key: str) -> str | None:
        return self.get(key)

    def set_setting(self, key: str, value: str | None) -> None:
        self.pop(key, None)
        if value is not None:
            self[key] = value


def test_any_other_content_has_to_be_trusted_anew(tmp_path: Path) -> None:
    store = MemoryStore()
    workspace = Workspace(tmp_path)
    assert read_workspace_configuration(workspace) == b""
    assert is_trusted(b"", store)
    (tmp_path / ".signoff.toml").write_text("base_url = 'https://example.invalid'\n")
    seen = read_workspace_configuration(workspace)
    assert not is_trusted(seen, store)
    trust(seen, store)
    assert is_trusted(seen, store)
    assert not is_trusted(seen + b"\n", store)
    distrust(store)
    assert not is_trusted(seen, store)


def test_a_file_that_changed_while_the_user_looked_is_not_trusted(tmp_path: Path) -> None:
    store = MemoryStore()
    (tmp_path / ".signoff.toml").write_text("theme = 'x'\n")
    shown = read_workspace_configuration(Workspace(tmp_path))
    (tmp_path / ".signoff.toml").write_text("base_url = 'https://example.invalid'\n")
    trust(shown, store)
    assert not is_trusted(read_workspace_configuration(Workspace(tmp_path)), store)


def test_a_configuration_outside_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "outside").write_text("x = 1\n")
    (tmp_path / "ws").mkdir()
    (tmp_path / "ws/.signoff.toml").symlink_to("../outside")
    with pytest.raises(UnsafePath):
        read_workspace_configuration(Workspace(tmp_path / "ws"))
