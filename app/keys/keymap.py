"""The user's keymap, checked before Textual gets it.

Textual silently accepts unknown ids and keys; and if two actions of one scope have the same key, it silently drops
one. Here an invalid keymap is refused as a whole, so that it cannot swap approve and deny.
"""

import unicodedata
from collections.abc import Mapping

from app.keys.actions import ACTIONS, Scope, UserAction

_SCOPES_TOGETHER: dict[Scope, tuple[Scope, ...]] = {
    "app": ("app", "chat", "composer", "review", "diff", "files", "approval"),
    "chat": ("app", "chat"),
    "composer": ("app", "composer"),
    "review": ("app", "review", "diff", "files", "approval"),
    "diff": ("app", "review", "diff"),
    "files": ("app", "review", "files"),
    "writing": ("writing",),
    "asking": ("asking",),
    "approval": ("app", "review", "approval"),
}
"""Scopes whose keys can reach the same widget."""

_HABITUAL_KEYS = frozenset({"enter", "escape", "space", "tab", "backspace"})
"""Keys that users press without looking: they must not decide, whatever modifier is held."""
_KEYS_BY_CONTROL_CODE = {
    0: "space",
    8: "backspace",
    9: "tab",
    10: "enter",
    13: "enter",
    27: "escape",
    127: "backspace",
}
"""Control characters and the keys that send them; Ctrl with a letter or sign sends the same byte."""
_CONTROL_CODES = {"2": 0, "3": 27, "8": 127, "?": 127}
"""Bytes that Ctrl with these characters sends in xterm-like terminals; for those from @ on, the five lowest bits."""

DECISION_ACTION_IDS = frozenset(
    {
        "review.approve",
        "review.approve_and_continue",
        "review.deny",
        "review.request_changes",
        "review.approve_all",
        "review.deny_all",
        "review.deny_hunk",
        "review.allow_session",
        "review.allow_project",
        "review.undo",
        "review.redo",
    }
)
"""Ids of the actions that decide."""


class KeymapError(Exception):
    """The keymap cannot be used; the message says why."""


def validate_and_convert_keymap(keymap: Mapping[str, str]) -> dict[str, str]:
    """Check the user's keymap, and return it in Textual's form: comma-separated keys by action id.

    Raises:
        KeymapError: an unknown action or key, a key with two actions in the same place, or a decision on a key that
            users press without looking.
    """
    by_id = {action.id: action for action in ACTIONS}
    for action_id, keys in keymap.items():
        if action_id not in by_id:
            raise KeymapError(f"keys: there is no action {action_id!r}; `signoff keys` lists them.")
        if not _split_keys(keys):
            raise KeymapError(f"keys: {action_id} needs at least one key.")
        for key in _split_keys(keys):
            _check_key(action_id, key)
    for action_id in keymap:
        _check_duplicates(by_id[action_id], keymap)
    return {action_id: ",".join(_split_keys(keys)) for action_id, keys in keymap.items()}


def effective_keys(action: UserAction, keymap: Mapping[str, str]) -> tuple[str, ...]:
    """Return the keys of an action with this keymap."""
    return _split_keys(keymap.get(action.id, action.keys))


def first_key_name(action_id: str, keymap: Mapping[str, str]) -> str:
    """Return the display name of an action's first key."""
    return key_display_name(effective_keys(next(action for action in ACTIONS if action.id == action_id), keymap)[0])


def actions_bound_only_by_user(keymap: Mapping[str, str]) -> list[tuple[UserAction, str]]:
    """Return the actions that have keys only in the user's keymap and none by default, each with its keys."""
    return [(action, keymap[action.id]) for action in ACTIONS if not action.keys and action.id in keymap]


_DISPLAY_NAMES = {
    "escape": "Esc",
    "enter": "Enter",
    "space": "Space",
    "tab": "Tab",
    "backspace": "Backspace",
    "delete": "Del",
    "pageup": "PgUp",
    "pagedown": "PgDn",
    "home": "Home",
    "end": "End",
    "up": "↑",
    "down": "↓",
    "left": "←",
    "right": "→",
}
_MODIFIER_NAMES = {"ctrl": "Ctrl", "shift": "Shift", "alt": "Alt", "super": "Super", "hyper": "Hyper", "meta": "Meta"}


def key_display_name(key: str) -> str:
    """Return the display name of a key: `Ctrl+P` for `ctrl+p`, `?` for `question_mark`."""
    *modifiers, name = key.split("+") if len(key) > 1 else [key]
    shown = _DISPLAY_NAMES.get(name) or (name if len(name) == 1 else _character_of_key(name)) or name.capitalize()
    if modifiers and len(shown) == 1:
        shown = shown.upper()
    return "+".join([*(_MODIFIER_NAMES.get(modifier, modifier) for modifier in modifiers), shown])


def config_key_name(key: str) -> str:
    """Return a key as the configuration spells it: `ctrl+p`, or the character itself for signs."""
    *modifiers, name = key.split("+") if len(key) > 1 else [key]
    sign = None if len(name) == 1 or name in _DISPLAY_NAMES else _character_of_key(name)
    return "+".join([*modifiers, sign if sign and sign.isprintable() else name])


def _character_of_key(name: str) -> str | None:
    """Return the character of a key's name; Textual renames some of Unicode's names (`slash` for `solidus`)."""
    from textual.keys import REPLACED_KEYS, key_to_character

    return key_to_character(REPLACED_KEYS.get(name, name))


def _split_keys(keys: str) -> tuple[str, ...]:
    """Return Textual's names of the keys; a sign may be given as the character itself."""
    parts = [keys.strip()] if keys.strip() == "," else [part.strip() for part in keys.split(",")]
    return tuple(part if len(part) > 1 else key_of_character(part) for part in parts if part)


def key_of_character(character: str) -> str:
    """Return Textual's name for the key of a character."""
    from textual.keys import KEY_NAME_REPLACEMENTS

    if character.isalnum():
        return character
    name = unicodedata.name(character, character).lower().replace("-", "_").replace(" ", "_")
    return KEY_NAME_REPLACEMENTS.get(name, name)


def _check_key(action_id: str, key: str) -> None:
    from textual.keys import Keys

    *modifiers, name = key.split("+") if len(key) > 1 else [key]
    known_names = {value.value.rpartition("+")[2] for value in Keys}
    if unknown := set(modifiers) - set(_MODIFIER_NAMES):
        raise KeymapError(
            f"keys: {action_id}: {key!r} is not a key; {min(unknown)!r} is not one of {', '.join(_MODIFIER_NAMES)}."
        )
    if name not in known_names and not _character_of_key(name):
        raise KeymapError(f"keys: {action_id}: {key!r} is not a key.")
    if action_id in DECISION_ACTION_IDS and (sent_key := _find_sent_key(key)) in _HABITUAL_KEYS:
        cause = "" if sent_key == key else f" a terminal cannot tell it from {key_display_name(sent_key)}, and"
        raise KeymapError(
            f"keys: {action_id} cannot be on {key!r}:{cause} a key that is pressed without looking must not decide."
        )


def _find_sent_key(key: str) -> str:
    """Return the plain key that some terminals send for this one; the key itself if it has distinct bytes.

    Without the kitty protocol a terminal sends Enter for Ctrl+M, and drops most modifiers of keys without a letter.
    """
    *modifiers, name = key.split("+") if len(key) > 1 else [key]
    if name == "return":
        return "enter"
    if name in _HABITUAL_KEYS:
        return name
    character = name if len(name) == 1 else _character_of_key(name)
    if character is None:
        return key
    if "ctrl" in modifiers:
        code = _CONTROL_CODES.get(character, ord(character) & 0x1F if "@" <= character <= "\x7f" else -1)
        return _KEYS_BY_CONTROL_CODE.get(code, key)
    return _KEYS_BY_CONTROL_CODE.get(ord(character), "space" if character.isspace() else key)


def _check_duplicates(action: UserAction, keymap: Mapping[str, str]) -> None:
    for other in ACTIONS:
        are_scopes_together = other.scope in _SCOPES_TOGETHER[action.scope] and other is not action
        if are_scopes_together and (
            shared := set(effective_keys(action, keymap)) & set(effective_keys(other, keymap))
        ):
            raise KeymapError(f"keys: {action.id} and {other.id} are both on {config_key_name(min(shared))!r}.")
