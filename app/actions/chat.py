"""What works in the transcript, in the composer, and wherever else one writes.

Kept apart: each pane has its table.
"""

from app.actions.action import Action

IN_CHAT: tuple[Action, ...] = (
    Action("chat.up", "Up", "up,k", "cursor_up", "chat", "To the entry above."),
    Action("chat.down", "Down", "down,j", "cursor_down", "chat", "To the entry below."),
    Action("chat.open", "Open", "enter", "open", "chat", "Unfold the entry; a card leads to the review.", footer=1),
    Action("chat.page_up", "Page up", "pageup,ctrl+u", "page_up", "chat", "One screen up."),
    Action("chat.page_down", "Page down", "pagedown,ctrl+d", "page_down", "chat", "One screen down."),
    Action("chat.top", "Top", "home,g", "top", "chat", "To the first entry."),
    Action("chat.bottom", "Newest", "end,G", "bottom", "chat", "To the end, and follow what comes.", footer=2),
    Action("chat.copy", "Copy", "c", "copy_entry", "chat", "Copy the entry as it was written.", footer=5),
    Action(
        "chat.interventions",
        "To the model",
        "i",
        "toggle_interventions",
        "chat",
        "Hide or show what signoff tells the model.",
    ),
    Action(
        "writing.send",
        "Send",
        "enter,ctrl+s,ctrl+enter",
        "send",
        "writing",
        "Send or save what is written.",
        footer=1,
    ),
    Action("writing.close", "Close", "escape", "close", "writing", "Close the field; the draft is kept.", footer=1),
    Action("writing.newline", "New line", "shift+enter,ctrl+j", "newline", "writing", "Start a new line.", footer=3),
    Action("writing.undo", "Undo", "ctrl+underscore", "undo", "writing", "Take back what was typed last."),
    Action("composer.send", "Send", "enter", "send", "composer", "Send the message.", footer=1),
    Action(
        "composer.newline", "New line", "shift+enter,ctrl+j", "newline", "composer", "Start a new line.", footer=3
    ),
    Action(
        "composer.history",
        "History",
        "ctrl+r",
        "search_history",
        "composer",
        "Search what you sent before.",
        footer=5,
    ),
    Action("composer.undo", "Undo", "ctrl+underscore", "undo", "composer", "Take back what was typed last."),
    Action("composer.editor", "Editor", "ctrl+g", "external_editor", "composer", "Write in $EDITOR."),
)
