"""`{files}` in a check's command: whatever is accepted takes every name as it is, in a real shell."""

import shlex
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.config.config_tables import FILES, validate_placeholder
from app.config.settings import ConfigError, validated_value

NAMES = [
    "a b.py",
    "it's.py",
    '"; touch hacked; ".py',
    "$(touch hacked).py",
    "`touch hacked`.py",
    "'; touch hacked; '",
]
PIECES = [
    "echo ",
    "cat ",
    '"',
    "'",
    "$(",
    "(",
    ")",
    "`",
    "\\",
    FILES,
    FILES,
    " ",
    "\n",
    "<<E\n",
    "<<-'E' ",
    "E\n",
    "# ",
    ";",
]


def run(command: str, folder: Path) -> list[str]:
    """The lines that a shell prints."""
    done = subprocess.run(
        ["/bin/sh", "-c", command.replace(FILES, shlex.join(NAMES))],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout.splitlines()


@pytest.mark.parametrize(
    "command",
    [
        'sh -c "lint {files}"',
        "sh -c 'lint {files}'",
        'found="$(lint "x {files}")"',
        "echo `lint {files}`",
        "lint \\{files}",
        "cat <<E\n{files}\nE",
        "cat <<-'E' > x\n\t{files}\n\tE",
    ],
)
def test_within_quotes_it_is_refused_with_what_to_write(command: str) -> None:
    with pytest.raises(ConfigError, match=r"check\.0\.run: \{files\} is quoted already.*sh -c 'lint \"\$@\"' sh"):
        validated_value("check", [{"name": "lint", "run": command}])


@pytest.mark.parametrize(
    "command",
    [
        "printf '%s\\n' {files}",
        'sh -c \'printf "%s\\n" "$@"\' sh {files}',
        'x="$(printf \'%s\\n\' {files})"; echo "$x"',
        "# don't\nprintf '%s\\n' {files}",
        "cat <<E > x; cat <<-'F' > x\n'\nE\n\"\n\tF\nprintf '%s\\n' {files}",
        'f() { (for each in "$@"; do echo "$each"; done); }; f {files}',
        "echo \"$(pwd)\" '`' \\\" > x; printf '%s\\n' {files}",
    ],
)
def test_elsewhere_each_name_is_one_argument(command: str, tmp_path: Path) -> None:
    assert run(validate_placeholder(command), tmp_path) == NAMES


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.sampled_from(PIECES), min_size=1, max_size=12).map("".join).filter(lambda text: FILES in text))
def test_no_name_is_run(tmp_path: Path, command: str) -> None:
    try:
        validate_placeholder(command)
    except ValueError:
        return
    run(command, tmp_path)
    assert not (tmp_path / "hacked").exists()
