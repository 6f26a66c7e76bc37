"""Actions and the user's keymap: what is taken, what is refused, and how keys are named."""

import string
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual.binding import Binding

from app.keys.actions import ACTIONS, make_key_bindings_of_scopes
from app.keys.keymap import (
    DECISION_ACTION_IDS,
    KeymapError,
    actions_bound_only_by_user,
    config_key_name,
    effective_keys,
    key_display_name,
    validate_and_convert_keymap,
)
from app.ui.context import slash_commands
from app.ui.context.slash_commands import BadArgument

BY_ID = {action.id: action for action in ACTIONS}


def test_standard_and_free_keys_are_taken() -> None:
    assert validate_and_convert_keymap({}) == {}
    assert validate_and_convert_keymap({action.id: action.keys for action in ACTIONS if action.keys})
    keymap = validate_and_convert_keymap({"review.approve": "ctrl+y"})
    assert effective_keys(BY_ID["review.approve"], keymap) == ("ctrl+y",)
    assert effective_keys(BY_ID["review.deny"], keymap) == ("n",)
    assert [
        (action.id, keys)
        for action, keys in actions_bound_only_by_user(validate_and_convert_keymap({"app.settings": "f9"}))
    ] == [("app.settings", "f9")]


def test_a_punctuation_key_can_be_configured_by_its_character() -> None:
    for sign in string.punctuation:
        [key] = ["comma"] if sign == "," else [each.key for each in Binding.make_bindings([(sign, "press", "")])]
        assert (key_display_name(key), config_key_name(key)) == (sign, sign)
        assert effective_keys(BY_ID["review.approve"], {"review.approve": sign}) == (key,)
    assert validate_and_convert_keymap({"review.approve": "ctrl+y, |"}) == {"review.approve": "ctrl+y,vertical_line"}
    with pytest.raises(KeymapError, match=r"are both on '\)'"):
        validate_and_convert_keymap({"review.approve": ")"})


def test_conflicting_keymap_is_refused() -> None:
    for keymap, said in (
        ({"review.sign": "y"}, "no action"),
        ({"review.approve": ""}, "at least one key"),
        ({"review.approve": "ctrl+nonsense"}, "not a key"),
        ({"review.approve": "Ctrl+g"}, "'Ctrl' is not one of ctrl, shift"),
        ({"app.help": "control+g"}, "'control' is not one of ctrl, shift"),
        ({"review.approve": "n"}, "both on"),
        ({"review.approve": "n", "review.deny": "y", "review.undo": "y"}, "both on"),
        ({"review.approve": "j"}, "both on"),
        ({"app.help": "y"}, "both on"),
    ):
        with pytest.raises(KeymapError, match=said):
            validate_and_convert_keymap(keymap)


def test_a_decision_is_never_on_a_key_that_is_pressed_without_looking() -> None:
    for action in DECISION_ACTION_IDS:
        for key in ("enter", "escape", "space", "tab", "backspace"):
            with pytest.raises(KeymapError, match="without looking"):
                validate_and_convert_keymap({action: key})


CONFUSED = {
    "Enter": "ctrl+m ctrl+M ctrl+shift+m ctrl+j return shift+enter carriage_return a,ctrl+m",
    "Tab": "ctrl+i shift+tab",
    "Esc": "ctrl+left_square_bracket ctrl+[ ctrl+3 shift+escape",
    "Backspace": "ctrl+h ctrl+8 ctrl+question_mark",
    "Space": "shift+space no-break_space ctrl+space ctrl+@ ctrl+at ctrl+2 ctrl+`",
}


@pytest.mark.parametrize("pressed", CONFUSED)
def test_a_key_that_terminals_confuse_with_another_is_refused(pressed: str) -> None:
    for key in CONFUSED[pressed].split():
        with pytest.raises(KeymapError, match=f"cannot tell it from {pressed}"):
            validate_and_convert_keymap({"review.approve": key})


def test_every_other_letter_with_ctrl_and_a_key_without_a_character_may_decide() -> None:
    for key in ("f12", "ctrl+f12", "ctrl+delete", "insert", *(f"ctrl+{each}" for each in "abcdefgklnopqrstuvwxyz")):
        try:
            keymap = validate_and_convert_keymap({"review.approve": key})
        except KeymapError as error:
            assert "both on" in str(error) and len(key) == len("ctrl+a"), key
        else:
            assert effective_keys(BY_ID["review.approve"], keymap) == (key,)


@given(st.dictionaries(st.sampled_from(sorted(BY_ID)), st.sampled_from("abcdefghijknrtuxyzYNUJK"), max_size=6))
def test_no_accepted_keymap_puts_approve_and_deny_on_one_key(keymap: dict[str, str]) -> None:
    try:
        taken = validate_and_convert_keymap(keymap)
    except KeymapError:
        return
    keys = {action: set(effective_keys(BY_ID[action], taken)) for action in DECISION_ACTION_IDS}
    for first in DECISION_ACTION_IDS:
        for second in DECISION_ACTION_IDS - {first}:
            assert not keys[first] & keys[second]


def test_keys_have_their_common_names() -> None:
    keys = ("ctrl+p", "question_mark", "right_square_bracket", "escape", "f1", "Y", "y", "shift+enter")
    assert [key_display_name(key) for key in keys] == ["Ctrl+P", "?", "]", "Esc", "F1", "Y", "y", "Shift+Enter"]


def test_actions_have_names_help_and_ids_of_their_own() -> None:
    ids = [action.id for action in ACTIONS]
    commands = [action.command for action in ACTIONS if action.command]
    assert len(set(ids)) == len(ids)
    assert len(set(commands)) == len(commands)
    assert not [action.id for action in ACTIONS if action.priority and not action.id.startswith("app.")]
    assert all(
        binding.id
        for binding in make_key_bindings_of_scopes("app", "review", "diff", "files", "approval", "chat", "composer")
    )
    assert all(action.help.endswith(".") for action in ACTIONS if action.command)


@pytest.mark.parametrize(
    ("argument", "policy"),
    [("", None), ("every-edit", ("every-edit", None)), ("chain", ("chain", None)), ("Chain 12", ("chain", 12))],
)
def test_gate_policies_are_read(argument: str, policy: tuple[str, int | None] | None) -> None:
    assert slash_commands.parse_optional_gate_policy(argument) == policy


def test_a_policy_that_makes_no_sense_is_one_line() -> None:
    for argument in ("chain 0", "chain 51", "chain -1", "chain ²", "chain 3 4", "open", "chain 9999"):
        with pytest.raises(BadArgument) as refused:
            slash_commands.parse_optional_gate_policy(argument)
        assert "\n" not in str(refused.value) and "/gate" in str(refused.value)


@pytest.mark.parametrize(("argument", "now", "then"), [("", True, False), ("on", False, True), ("OFF", True, False)])
def test_switches_are_read(argument: str, now: bool, then: bool) -> None:
    assert slash_commands.parse_switch("wrap", argument, now) is then


def test_a_name_is_one_word() -> None:
    assert [slash_commands.parse_optional_word("theme", argument) for argument in ("", " nord ")] == ["", "nord"]
    with pytest.raises(BadArgument, match="Write /theme "):
        slash_commands.parse_optional_word("theme", "nord dark")


def test_a_file_may_have_spaces_in_quotes(tmp_path: Path) -> None:
    assert slash_commands.parse_output_path('"my notes.md"', tmp_path) == tmp_path / "my notes.md"
    assert slash_commands.parse_output_path("", tmp_path) is None
    for wrong in ("two files", '"open'):
        with pytest.raises(BadArgument):
            slash_commands.parse_output_path(wrong, tmp_path)
