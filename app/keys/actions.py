"""All actions of keys, the palette, slash commands and the help screen.

Bindings, footer, command palette, help and the documentation are generated from `ACTIONS`, which lists every key.
Destructive actions never have `priority`: they must not work while another widget has the focus.
"""

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Literal, NamedTuple, cast

if TYPE_CHECKING:
    from textual.binding import Binding


Scope = Literal["app", "chat", "composer", "review", "diff", "files", "approval", "writing", "asking"]
"""Where a key works: everywhere, in the transcript, in the composer, in the whole review, or in a part of it."""


class UserAction(NamedTuple):
    """An action that the user calls by a key, in the palette or by a slash command."""

    id: str
    """The name in the keymap of the configuration, such as `review.approve`."""
    title: str
    """A short title for the footer."""
    keys: str
    """Default keys in Textual's notation, comma-separated; empty for none."""
    handler: str
    """Textual's name of the action: `approve` calls `action_approve`."""
    scope: Scope
    help: str = ""
    """A sentence for the help screen and the palette."""
    footer: int = 0
    """Rank in the footer: 0 is never shown, 1 always; in a narrow footer, higher ranks are left out first."""
    is_movement: bool = False
    """Whether it only moves a cursor or a view; the palette leaves it out."""
    priority: bool = False
    """Whether it works before the focused widget handles the key."""
    command: str = ""
    """The slash command, without the slash; the palette offers it, too."""
    argument: str = ""
    """The argument of the slash command in the help, such as `[every-edit|chain N]`."""


def _action(
    id: str,  # noqa: A002
    title: str,
    keys: str,
    help: str,  # noqa: A002
    *,
    handler: str = "",
    footer: int = 0,
    moves: bool = False,
    priority: bool = False,
    command: str = "",
) -> UserAction:
    """Return the action with this id, `SCOPE.NAME`; its handler is NAME unless another is given."""
    scope, _, name = id.partition(".")
    return UserAction(id, title, keys, handler or name, cast(Scope, scope), help, footer, moves, priority, command)


def _command(name: str, title: str, help: str, argument: str = "") -> UserAction:  # noqa: A002
    """Return a command of the app that has no key by default."""
    return UserAction(
        f"app.{name}", title, "", f"app.command('{name}')", "app", help, command=name, argument=argument
    )


REVIEW_ACTIONS: tuple[UserAction, ...] = (
    _action("review.approve", "Approve", "y", "Write the chosen hunks to disk.", footer=1),
    _action(
        "review.approve_and_continue",
        "Approve, go on",
        "o",
        "Write the chosen hunks to disk and let the model go on.",
        footer=2,
    ),
    _action("review.deny", "Deny", "n", "Discard the proposal; nothing changes.", footer=1),
    _action(
        "review.request_changes",
        "Request changes",
        "r",
        "Deny with feedback and line comments; the model goes on with your words.",
        footer=1,
    ),
    _action("review.approve_all", "Approve all", "Y", "Approve everything that waits."),
    _action("review.deny_all", "Deny all", "N", "Deny everything that waits."),
    _action(
        "review.toggle_hunk", "Hunk in/out", "space", "Include or exclude the hunk or the picked lines.", footer=2
    ),
    _action("review.toggle_file", "File", "t", "Include or exclude all hunks of the file."),
    _action("review.deny_hunk", "Deny hunk", "x", "Discard the hunk at the cursor alone."),
    _action(
        "review.allow_session",
        "Allow for session",
        "a",
        "Allow commands that begin like this one, or this file, for the rest of the session.",
    ),
    _action(
        "review.allow_project",
        "Allow always",
        "A",
        "Always allow commands that begin like this one in this project; /settings lists and revokes them.",
    ),
    _action("review.narrower", "Narrower", "greater_than_sign", "Allow less: one more word."),
    _action("review.wider", "Wider", "less_than_sign", "Allow more: one word less."),
    _action(
        "review.undo",
        "Undo",
        "u",
        "Undo the decision: restore the files byte for byte, or reopen what was denied.",
        footer=2,
    ),
    _action("review.redo", "Redo", "U", "Redo what was undone.", footer=2),
    _action("review.edit", "Edit", "e", "Edit the proposed text; resolve the conflicts of a stale proposal."),
    _action(
        "review.checks", "Checks' output", "C", "Show the output of the proposal's checks.", handler="show_checks"
    ),
    _action(
        "review.reads",
        "Read before",
        "B",
        "Show what the model had read before it wrote the proposal, at which version, and what it found but did not.",
        handler="show_reads",
    ),
    _action(
        "review.run_checks",
        "Run checks",
        "R",
        "Run the checks that have not run yet, or all of them again; stop those that are running.",
    ),
    _action(
        "review.find_evidence",
        "Evidence",
        "E",
        "Run the tests without each hunk, to see which of them fail; stop them if they run.",
    ),
    _action(
        "review.reproduce",
        "Run again",
        "equals_sign",
        "Run the command that made the proposal again, and compare the results byte for byte; stop it if it runs.",
    ),
    _action(
        "review.send_findings",
        "Send findings",
        "S",
        "Deny with what the checks found as your feedback; hunks that no test notices become a draft of feedback.",
    ),
    _action(
        "review.next_origin",
        "By origin",
        "O",
        "List only the proposals of one agent, model or command; press again for the next one, then all.",
    ),
    _action(
        "review.ask",
        "Ask",
        "q",
        "Ask the model about the hunk or the picked lines, outside the conversation; it decides nothing.",
        footer=3,
    ),
    _action("review.next_proposal", "Next proposal", "J", "Show the next proposal."),
    _action("review.previous_proposal", "Previous", "K", "Show the previous proposal."),
    _action("review.full_screen", "Full screen", "f", "Give the diff the whole screen."),
    _action("review.more_room", "More room", "plus", "Widen the review, narrow the chat."),
    _action("review.less_room", "Less room", "minus", "Widen the chat, narrow the review."),
    _action("review.help", "Help", "question_mark", "All keys and commands.", handler="app.command('help')"),
    _action("approval.down", "Down", "j,down", "Next item.", handler="cursor_down"),
    _action("approval.up", "Up", "k,up", "Previous item.", handler="cursor_up"),
    _action("asking.send", "Ask", "enter", "Send the question.", footer=1),
    _action(
        "asking.close",
        "Close",
        "escape",
        "Stop the answer, else close; a draft stays. Escape in the diff closes the question, and the answer goes on.",
        footer=1,
    ),
    _action(
        "asking.feedback",
        "Make it feedback",
        "ctrl+f",
        "Put the last question and its answer into the feedback on the proposal, to edit and send.",
        handler="make_feedback",
        footer=2,
    ),
    _action("asking.newline", "New line", "shift+enter,ctrl+j", "Start a new line.", footer=3),
    _action("asking.undo", "Undo", "ctrl+underscore", "Undo the last typed text."),
)


DIFF_ACTIONS: tuple[UserAction, ...] = (
    _action("diff.down", "Down", "j,down", "Next line.", handler="cursor_down", moves=True),
    _action("diff.up", "Up", "k,up", "Previous line.", handler="cursor_up", moves=True),
    _action("diff.page_down", "Page down", "pagedown,ctrl+d", "Next page.", moves=True),
    _action("diff.page_up", "Page up", "pageup,ctrl+u", "Previous page.", moves=True),
    _action("diff.top", "Top", "g,home", "First line.", moves=True),
    _action("diff.bottom", "Bottom", "G,end", "Last line.", moves=True),
    _action("diff.next_hunk", "Next hunk", "right_square_bracket", "Next hunk.", footer=3),
    _action("diff.previous_hunk", "Previous hunk", "left_square_bracket", "Previous hunk."),
    _action("diff.next_file", "Next file", "right_curly_bracket", "Next file."),
    _action("diff.previous_file", "Previous file", "left_curly_bracket", "Previous file."),
    _action("diff.layout", "Layout", "v", "Unified or side by side.", handler="toggle_layout", footer=6),
    _action("diff.wrap", "Wrap", "w", "Wrap long lines or scroll them.", handler="toggle_wrap"),
    _action(
        "diff.white_space",
        "White space",
        "W",
        "Hide or show changes in white space that have no effect.",
        handler="toggle_white_space",
    ),
    _action("diff.pick_lines", "Pick lines", "asterisk", "Pick lines; Space then includes or excludes them."),
    _action("diff.pick_down", "Pick down", "shift+down", "Pick the next line, too.", moves=True),
    _action("diff.pick_up", "Pick up", "shift+up", "Pick the line above, too.", moves=True),
    _action(
        "diff.next_unseen",
        "Next unseen",
        "right_parenthesis",
        "Go to the next lines that were never on screen.",
        footer=5,
    ),
    _action("diff.folds", "Folds", "z", "Open or close the folds of unchanged lines.", handler="toggle_folds"),
    _action(
        "diff.all_folds", "All folds", "Z", "Show the whole files, or only the hunks.", handler="toggle_all_folds"
    ),
    _action(
        "diff.open", "Open", "enter", "Open or close a fold, a file or a long line; tick off a comment.", moves=True
    ),
    _action("diff.left", "Left", "left,h", "Scroll long lines to the left.", handler="scroll_code_left", moves=True),
    _action(
        "diff.right", "Right", "right,l", "Scroll long lines to the right.", handler="scroll_code_right", moves=True
    ),
    _action("diff.comment", "Comment", "c", "Comment on this line.", footer=4),
    _action("diff.search", "Search", "slash", "Search in the diff."),
    _action("diff.search_next", "Next match", "full_stop", "Next match."),
    _action("diff.search_previous", "Previous match", "comma", "Previous match."),
    _action("diff.files", "Files", "F", "Go to the list of files, or show or hide it.", handler="toggle_files"),
    _action("diff.order", "Order", "P", "Sort the files by path, or by risk.", handler="toggle_order"),
    _action(
        "diff.external",
        "Diff program",
        "D",
        "Show the file by the program of git's `diff.external`, such as difftastic.",
        handler="external_diff",
        footer=6,
    ),
    _action(
        "diff.versions",
        "Versions",
        "V",
        "Compare a revised proposal with its former version.",
        handler="toggle_versions",
    ),
    _action("files.down", "Down", "j,down,right_curly_bracket", "Next file.", handler="cursor_down"),
    _action("files.up", "Up", "k,up,left_curly_bracket", "Previous file.", handler="cursor_up"),
    _action("files.open", "Open", "enter", "Go to the diff of the file.", handler="leave", footer=3),
    _action("files.hide", "Hide", "F", "Hide the list.", footer=2),
)


CHAT_ACTIONS: tuple[UserAction, ...] = (
    _action("chat.up", "Up", "up,k", "Go to the entry above.", handler="cursor_up"),
    _action("chat.down", "Down", "down,j", "Go to the entry below.", handler="cursor_down"),
    _action("chat.open", "Open", "enter", "Unfold the entry; a card leads to the review.", footer=1),
    _action("chat.page_up", "Page up", "pageup,ctrl+u", "One screen up."),
    _action("chat.page_down", "Page down", "pagedown,ctrl+d", "One screen down."),
    _action("chat.top", "Top", "home,g", "Go to the first entry."),
    _action("chat.bottom", "Newest", "end,G", "Go to the end and follow it.", footer=2),
    _action("chat.copy", "Copy", "c", "Copy the entry as it was written.", handler="copy_entry", footer=5),
    _action(
        "chat.interventions",
        "To the model",
        "i",
        "Hide or show what signoff tells the model.",
        handler="toggle_interventions",
    ),
    _action("writing.send", "Send", "enter,ctrl+s,ctrl+enter", "Send or save the text.", footer=1),
    _action("writing.close", "Close", "escape", "Close the field; the draft is kept.", footer=1),
    _action("writing.newline", "New line", "shift+enter,ctrl+j", "Start a new line.", footer=3),
    _action("writing.undo", "Undo", "ctrl+underscore", "Undo the last typed text."),
    _action("composer.send", "Send", "enter", "Send the message.", footer=1),
    _action("composer.newline", "New line", "shift+enter,ctrl+j", "Start a new line.", footer=3),
    _action(
        "composer.history", "History", "ctrl+r", "Search what you sent before.", handler="search_history", footer=5
    ),
    _action("composer.undo", "Undo", "ctrl+underscore", "Undo the last typed text."),
    _action("composer.editor", "Editor", "ctrl+g", "Write in $EDITOR.", handler="external_editor"),
)


APP_ACTIONS: tuple[UserAction, ...] = (
    _action("app.palette", "Palette", "ctrl+p", "Find any command by name.", handler="app.command_palette", footer=3),
    _action("app.interrupt", "Interrupt", "escape", "Stop the model at once.", handler="app.interrupt"),
    _action("app.focus_chat", "Chat", "f2", "Go to the chat.", handler="app.focus_chat", priority=True, footer=4),
    _action("app.focus_diff", "Diff", "f3", "Go to the diff.", handler="app.focus_diff", priority=True, footer=4),
    _action(
        "app.focus_approvals",
        "Approvals",
        "f4",
        "Go to the approvals.",
        handler="app.focus_approvals",
        priority=True,
        footer=4,
    ),
    _action("app.next_pane", "Next pane", "tab", "Go to the next pane.", handler="screen.next_pane(1)", moves=True),
    _action(
        "app.previous_pane",
        "Previous pane",
        "shift+tab",
        "Go to the pane before; from the composer, to the transcript.",
        handler="screen.next_pane(-1)",
        moves=True,
    ),
    _action(
        "app.needed",
        "What needs you",
        "f6",
        "Go to what waits for you: a permission, a question or a proposal, also of another session.",
        handler="app.go_where_needed",
        priority=True,
    ),
    _action(
        "app.help",
        "Help",
        "f1",
        "All keys and commands.",
        handler="app.command('help')",
        priority=True,
        command="help",
        footer=1,
    ),
    _action(
        "app.quit",
        "Quit",
        "ctrl+q",
        "Quit signoff; nothing is lost.",
        handler="app.quit",
        priority=True,
        command="quit",
        footer=6,
    ),
    _action(
        "app.suspend",
        "Suspend",
        "ctrl+z",
        "Suspend to the shell; `fg` comes back.",
        handler="app.suspend_process",
        priority=True,
    ),
    _command("new", "New session", "Start a new session."),
    _command("sessions", "Sessions", "Pick an earlier session to continue."),
    _command(
        "search",
        "Search",
        "Find what was said, proposed or read in any session of this workspace, and open it there.",
        "[WORDS]",
    ),
    _action(
        "app.todos",
        "To-do list",
        "ctrl+o",
        "Show or hide the model's to-do list.",
        handler="app.command('todos')",
        priority=True,
        command="todos",
    ),
    _command("rename", "Rename session", "Give this session a title of your own.", "TITLE"),
    _command("resume", "Resume", "Continue the previous session, or the one with this id.", "[ID]"),
    _command("fork", "Fork", "Continue in a copy of this session."),
    _command("continue", "Continue", "Open the gate and let the model continue; also after a failed request."),
    _command("model", "Model", "Choose another model of the endpoint.", "[NAME]"),
    _command(
        "effort",
        "Reasoning effort",
        "How much the model reasons before it answers; off leaves it to the server.",
        "[off|none|minimal|low|medium|high|xhigh|max]",
    ),
    _command("theme", "Theme", "Choose another theme.", "[NAME]"),
    _command(
        "gate",
        "Gate policy",
        "When the gate closes: after every edit, or after N steps that stage one.",
        "[every-edit|chain N]",
    ),
    _command(
        "plan",
        "Plan mode",
        "Let the model read and plan without changing anything; run it again to end it.",
        "[on|off]",
    ),
    _command(
        "worktree",
        "Review what is on disk",
        "Review what is changed on disk against git's index: yes keeps it, no reverts it.",
        "[--all] [PATH …]",
    ),
    _command(
        "from",
        "Review a commit",
        "Propose a commit, a branch, a range or a pull request.",
        "[--all] REF|A..B|URL|REMOTE REF",
    ),
    _command("compact", "Compact", "Summarise older messages to free context."),
    _command("export", "Export", "Write this session as Markdown to a file.", "[FILE]"),
    _command("doctor", "Doctor", "Check the endpoint: key, model, streaming, tools."),
    _command("verify", "Verify", "Check that reviews cover the commits to be pushed."),
    _command("wire", "Wire", "Show the last request exactly as it was sent."),
    _command("settings", "Settings", "Change settings and save them."),
    _command("interventions", "Interventions", "Show or hide what signoff tells the model."),
    _command("trust", "Trust", "Trust the settings, commands and servers in this workspace's files as they are now."),
    _command("mcp", "MCP servers", "MCP servers, their tools and logs; switch them on and off."),
    _command(
        "layout",
        "Diff layout",
        "How the diff is laid out: by its width, unified or side by side.",
        "[auto|unified|split]",
    ),
    _command("wrap", "Diff wrap", "Whether long lines in the diff wrap.", "[on|off]"),
    _command("skills", "Skills", "List the skills that the model can use, and their origin."),
    _command("vim", "Vim keys", "Vim's keys in the composer and where a proposed text is edited.", "[on|off]"),
    _command("keys", "Keys", "Show all keys; each can be changed in the configuration."),
)


_SLASH_COMMAND = re.compile(r"/([^\W\d_][\w:-]*)(?:\s+(.*))?$", re.DOTALL)


def parse_slash_command(text: str) -> tuple[str, str] | None:
    """Return the name, in lower case, and the argument of a slash command; None for any other text."""
    match = _SLASH_COMMAND.match(text)
    return None if match is None else (match[1].lower(), (match[2] or "").strip())


ACTIONS: tuple[UserAction, ...] = (*APP_ACTIONS, *REVIEW_ACTIONS, *DIFF_ACTIONS, *CHAT_ACTIONS)
"""All actions, in the order of the help screen."""


def make_key_bindings_of_scopes(*scopes: Scope, wrapper_action: str = "") -> list["Binding"]:
    """Return Textual key bindings for the actions of `scopes`, with ids by which a keymap changes the keys.

    Args:
        wrapper_action: Name of an action that the bindings call with the handler's name; empty to call the handler.
    """
    from textual.binding import Binding

    return [
        Binding(
            action.keys,
            f"{wrapper_action}({action.handler!r})" if wrapper_action else action.handler,
            action.title,
            id=action.id,
            show=action.footer > 0,
            priority=action.priority,
        )
        for action in actions_in_scopes(*scopes)
        if action.keys
    ]


def actions_in_scopes(*scopes: Scope) -> Iterable[UserAction]:
    """Yield the actions of these scopes, in registry order."""
    return (action for action in ACTIONS if action.scope in scopes)
