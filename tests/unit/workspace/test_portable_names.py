"""Names that hurt on another disk are told; all others are not."""

import pytest

from app.workspace.path_rules import windows_problem


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("CON", "device"),
        ("con/x.py", "device"),
        ("src/NUL.txt", "device"),
        ("nul.tar.gz", "device"),
        ("Aux .c", "device"),
        ("com1", "device"),
        ("LPT\u00b9.log", "device"),
        ("CONIN$", "device"),
        ("nul:x", "device"),
        ("x:stream", "hidden stream of the file 'x'"),
        ("a/x.py::$DATA", "hidden stream"),
        ("trailing ", "same file as 'trailing'"),
        ("dots...", "same file as 'dots'"),
        ("folder./x", "same file as 'folder'"),
        ("what?.md", "no name can have ?"),
    ],
)
def test_told(path: str, said: str) -> None:
    assert said in windows_problem(path)


@pytest.mark.parametrize("path", ["console.py", "null", "a.con", "com10", "lpt", ".env", "a b.c", "aux-1/x", "prn_x"])
def test_not_told(path: str) -> None:
    assert windows_problem(path) == ""
