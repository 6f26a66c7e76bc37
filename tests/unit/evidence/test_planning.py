"""Which hunks are taken out, together with which others, and which of them tests could not notice."""

from app.automation.evidence.ablation_plan import AblationPlan, plan_ablation
from app.proposals.text.hunks import compare_contents
from app.proposals.values.models import FileChange, FileDiff, FileOperation


def diff(path: str, old: str, new: str) -> FileDiff:
    found = compare_contents(path, old.encode(), new.encode())
    change = FileChange(path=path, op=FileOperation.EDIT, base=None, result=None, hunks=found.hunks)
    return FileDiff(change=change, old=tuple(old.splitlines()), new=tuple(new.splitlines()))


def plan(*diffs: FileDiff, leave: tuple[int, ...] = ()) -> AblationPlan:
    chosen = {hunk.id for one in diffs for hunk in one.change.hunks if hunk.number not in leave}
    return plan_ablation(diffs, chosen)


def groups(found: AblationPlan) -> list[tuple[int, ...]]:
    return [tuple(hunk.number for hunk in group.hunks) for group in found.groups]


OLD = "import os\n\n\ndef a(x):\n    return x\n\n\ndef b(x):\n    return x\n"


def test_chosen_independent_hunks_are_removed_one_by_one_the_largest_first() -> None:
    new = OLD.replace("import os", "import os, re").replace(
        "    return x\n\n", "    x += 1\n    x += 2\n    x += 3\n    return x\n\n"
    )
    assert groups(plan(diff("a.py", OLD, new))) == [(2,), (1,)]
    assert groups(plan(diff("a.py", OLD, new), leave=(1,))) == [(2,)]


def test_hunks_that_need_each_other_are_removed_together() -> None:
    old = "def a(x):\n    if x:\n        one()\n    two()\n    return x\n"
    new = "def a(x):\n    try:\n        one()\n    except E:\n        pass\n    two()\n    return x + 1\n"
    assert groups(plan(diff("a.py", old, new))) == [(1, 2), (3,)]
    assert groups(plan(diff("a.js", old, new))) == [(1,), (2,), (3,)], "of other languages it shows when they run"


def test_hunks_without_behaviour_are_left_out() -> None:
    for path, old, new in (
        ("a.py", "x = 1  # one\n", "x = 1  # two\n"),
        ("a.py", 'def a():\n    """One."""\n    return 1\n', 'def a():\n    """Two."""\n    return 1\n'),
        ("a.js", "// one\nx()\n", "// two\nx()\n"),
        ("README.md", "one\n", "two\n"),
        ("uv.lock", "one\n", "two\n"),
    ):
        assert plan(diff(path, old, new)) == AblationPlan((), ()), path


def test_changed_tests_have_the_ids_of_the_runner() -> None:
    old = "class TestA:\n    def test_a(self):\n        assert 1\n\n\ndef helper():\n    pass\n"
    new = old.replace("assert 1", "assert 2").replace("pass", "return 1")
    new += "\n\n@pytest.mark.parametrize('x', [1])\ndef test_b(x):\n    assert x\n"
    found = plan(diff("tests/test_a.py", old, new))
    assert found.groups == ()
    names = [each.tests for each in found.tests]
    assert names[0] == ("tests/test_a.py::TestA::test_a",)
    assert names[-1] == ("tests/test_a.py::test_b",)
    assert found.tests[-1].matching_ids(["tests/test_a.py::test_b[1]", "tests/test_a.py::test_bee"]) == (
        "tests/test_a.py::test_b[1]",
    )


def test_changed_tests_of_other_languages_are_known_by_their_titles() -> None:
    found = plan(diff("src/a.test.js", "x\n", 'x\nit("adds two", () => {\n'))
    assert found.tests[0].matching_ids(["math › adds two", "math › adds"]) == ("math › adds two",)
