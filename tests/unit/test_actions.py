"""The registry of actions, and what may follow a slash command."""

from pathlib import Path

import pytest

from app.keys.actions import ACTIONS, bindings
from app.ui.context import slash_commands
from app.ui.context.slash_commands import BadArgument


def test_ids_and_commands_are_unique() -> None:
    ids = [action.id for action in ACTIONS]
    commands = [action.command for action in ACTIONS if action.command]
    assert len(set(ids)) == len(ids)
    assert len(set(commands)) == len(commands)


def test_no_decision_works_before_the_focused_widget_sees_the_key() -> None:
    assert not [action.id for action in ACTIONS if action.priority and not action.id.startswith("app.")]


def test_every_binding_can_be_remapped_by_its_id() -> None:
    assert all(binding.id for binding in bindings("app", "review", "diff", "files", "approval", "chat", "composer"))


def test_every_command_says_what_it_does() -> None:
    assert all(action.help.endswith(".") for action in ACTIONS if action.command)


@pytest.mark.parametrize(
    ("argument", "policy"),
    [("", None), ("every-edit", ("every-edit", None)), ("chain", ("chain", None)), ("Chain 12", ("chain", 12))],
)
def test_gate_policies_are_read(argument: str, policy: tuple[str, int | None] | None) -> None:
    assert slash_commands.parse_gate(argument) == policy


@pytest.mark.parametrize(
    "argument", ["chain 0", "chain 51", "chain -1", "chain ²", "chain 3 4", "open", "chain 9999"]
)
def test_a_policy_that_makes_no_sense_is_one_line(argument: str) -> None:
    with pytest.raises(BadArgument) as refused:
        slash_commands.parse_gate(argument)
    assert "\n" not in str(refused.value) and "/gate" in str(refused.value)


@pytest.mark.parametrize(("argument", "now", "then"), [("", True, False), ("on", False, True), ("OFF", True, False)])
def test_switches_are_read(argument: str, now: bool, then: bool) -> None:
    assert slash_commands.parse_switch("wrap", argument, now) is then


def test_a_name_is_one_word() -> None:
    assert [slash_commands.parse_word("theme", argument) for argument in ("", " nord ")] == ["", "nord"]
    with pytest.raises(BadArgument, match="Write /theme "):
        slash_commands.parse_word("theme", "nord dark")


def test_a_file_may_have_spaces_in_quotes(tmp_path: Path) -> None:
    assert slash_commands.parse_file('"my notes.md"', tmp_path) == tmp_path / "my notes.md"
    assert slash_commands.parse_file("", tmp_path) is None
    for wrong in ("two files", '"open'):
        with pytest.raises(BadArgument):
            slash_commands.parse_file(wrong, tmp_path)
