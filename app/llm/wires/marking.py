"""How a text of the program is marked where an endpoint takes it in the user's place only.

Kept apart: the placement of notes and the wires both mark.
"""

NOTE_OPENING = "<signoff-note>"
NOTE_CLOSING = "</signoff-note>"
NOTE_PREAMBLE = "Written by the program signoff, not by the user:"
NO_BEGINNING = "The beginning of this conversation is not shown."


def tagged(text: str) -> str:
    """Program text as a marked block for a place where only a user message is accepted."""
    inert = text.replace(NOTE_CLOSING, "<\\/signoff-note>")
    return f"{NOTE_OPENING}\n{NOTE_PREAMBLE}\n{inert}\n{NOTE_CLOSING}"
