"""What was typed before signoff asked for single keys: each letter is the key that Textual would have made of it."""

from app.ui.terminal.attention import keys_of


def test_each_letter_is_its_key_and_what_a_key_without_a_letter_sends_is_none() -> None:
    typed = [(key.key, key.character) for key in keys_of("aß7 /-\x1b[A\x1bOP\t\n")]
    assert typed == [
        ("a", "a"),
        ("ß", "ß"),
        ("7", "7"),
        ("space", " "),
        ("slash", "/"),
        ("minus", "-"),
        ("enter", "\r"),
    ]
