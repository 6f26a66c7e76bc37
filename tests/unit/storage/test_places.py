"""Where signoff keeps what it keeps."""

from pathlib import Path

import pytest

from app.storage.app_dirs import HOME_VARIABLE, find_app_dirs


def test_a_configuration_beside_the_folder_that_is_read_is_misplaced_unless_there_is_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(HOME_VARIABLE, str(tmp_path))
    assert find_app_dirs().misplaced_config_file is None
    (tmp_path / "config.toml").touch()
    assert find_app_dirs().misplaced_config_file == tmp_path / "config.toml"
    (tmp_path / "config").mkdir()
    (tmp_path / "config/config.toml").touch()
    assert find_app_dirs().misplaced_config_file is None


def test_in_the_folders_of_the_platform_none_is_misplaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(HOME_VARIABLE, raising=False)
    assert find_app_dirs().misplaced_config_file is None
