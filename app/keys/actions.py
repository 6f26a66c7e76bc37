"""All actions of keys, the palette, slash commands and the help screen.

Bindings, footer, command palette, help and the documentation are made from `ACTIONS`: a key that is not listed here
does not exist. Destructive actions are never `priority`, so that no other widget gives them a key by accident.
"""

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from textual.binding import Binding


Scope = Literal["app", "chat", "composer", "review", "diff", "files", "approval", "writing", "asking"]
"""Where a key works: everywhere, in the transcript, in the composer, in the whole review, or in a part of it."""


class Action(NamedTuple):
    """Something that the user can do."""

    id: str
    """What the keymap in the configuration names: `review.approve`."""
    title: str
    """Short, for the footer."""
    keys: str
    """Default keys in Textual's notation, comma-separated; empty for none."""
    handler: str
    """The action's name in Textual: `approve` calls `action_approve`."""
    scope: Scope
    help: str = ""
    """One sentence, for the help screen and the palette."""
    footer: int = 0
    """0 is not in the footer; 1 always is; of the others the highest go first where the footer is narrow."""
    moves: bool = False
    """Whether it only moves a cursor or a view, which nobody looks for in the palette."""
    priority: bool = False
    """Whether it works before the focused widget sees the key."""
    command: str = ""
    """Its slash command, without the slash; the palette offers it too."""
    argument: str = ""
    """What the slash command takes, for help: `[every-edit|chain N]`."""


IN_REVIEW: tuple[Action, ...] = (
    Action("review.approve", "Approve", "y", "approve", "review", "Write the chosen hunks to disk.", footer=1),
    Action(
        "review.approve_and_continue",
        "Approve, go on",
        "o",
        "approve_and_continue",
        "review",
        "Write the chosen hunks to disk and let the model go on.",
        footer=2,
    ),
    Action("review.deny", "Deny", "n", "deny", "review", "Discard the proposal; nothing changes.", footer=1),
    Action(
        "review.request_changes",
        "Request changes",
        "r",
        "request_changes",
        "review",
        "Deny with feedback and line comments; the model goes on with your words.",
        footer=1,
    ),
    Action("review.approve_all", "Approve all", "Y", "approve_all", "review", "Approve everything that waits."),
    Action("review.deny_all", "Deny all", "N", "deny_all", "review", "Deny everything that waits."),
    Action(
        "review.toggle_hunk",
        "Hunk in/out",
        "space",
        "toggle_hunk",
        "review",
        "Take the hunk, or the picked lines, in or out.",
        footer=2,
    ),
    Action("review.toggle_file", "File", "t", "toggle_file", "review", "Take all hunks of the file in or out."),
    Action("review.deny_hunk", "Deny hunk", "x", "deny_hunk", "review", "Discard the hunk at the cursor alone."),
    Action(
        "review.allow_session",
        "Allow for session",
        "a",
        "allow_session",
        "review",
        "Allow the form of command that is shown, or this file, for the rest of the session.",
    ),
    Action(
        "review.allow_project",
        "Allow always",
        "A",
        "allow_project",
        "review",
        "Allow the form of command that is shown in this project for good; /settings lists and revokes.",
    ),
    Action("review.narrower", "Narrower", "greater_than_sign", "narrower", "review", "Allow less: one more word."),
    Action("review.wider", "Wider", "less_than_sign", "wider", "review", "Allow more: one word less."),
    Action(
        "review.undo",
        "Undo",
        "u",
        "undo",
        "review",
        "Take back the decision: undo what was written, byte for byte, or reopen what was denied.",
        footer=2,
    ),
    Action("review.redo", "Redo", "U", "redo", "review", "Do again what was taken back.", footer=2),
    Action(
        "review.edit",
        "Edit",
        "e",
        "edit",
        "review",
        "Change the proposed text; of a stale one, resolve its conflicts.",
    ),
    Action(
        "review.checks", "Checks' output", "C", "show_checks", "review", "Show what the checks of the proposal print."
    ),
    Action(
        "review.run_checks",
        "Run checks",
        "R",
        "run_checks",
        "review",
        "Run the checks that were not run yet, or all again; end those that run.",
    ),
    Action(
        "review.send_findings",
        "Send findings",
        "S",
        "send_findings",
        "review",
        "Deny with what the checks found as your feedback; the model goes on with it.",
    ),
    Action(
        "review.next_origin",
        "By origin",
        "O",
        "next_origin",
        "review",
        "List only the proposals of one agent, model or command; again for the next, at last all.",
    ),
    Action(
        "review.ask",
        "Ask",
        "q",
        "ask",
        "review",
        "Ask the model about the hunk or the picked lines, aside from the conversation; nothing is decided by it.",
        footer=3,
    ),
    Action("review.next_proposal", "Next proposal", "J", "next_proposal", "review", "Show the next proposal."),
    Action("review.previous_proposal", "Previous", "K", "previous_proposal", "review", "Show the previous proposal."),
    Action("review.full_screen", "Full screen", "f", "full_screen", "review", "Give the diff the whole screen."),
    Action("review.more_room", "More room", "plus", "more_room", "review", "Widen the review, narrow the chat."),
    Action("review.less_room", "Less room", "minus", "less_room", "review", "Widen the chat, narrow the review."),
    Action("review.help", "Help", "question_mark", "app.command('help')", "review", "All keys and commands."),
    Action("approval.down", "Down", "j,down", "cursor_down", "approval", "Next item."),
    Action("approval.up", "Up", "k,up", "cursor_up", "approval", "Previous item."),
    Action("asking.send", "Ask", "enter", "send", "asking", "Ask what is written.", footer=1),
    Action(
        "asking.close",
        "Close",
        "escape",
        "close",
        "asking",
        "Stop the answer, else close; a draft stays. Escape in the diff closes the question, and the answer goes on.",
        footer=1,
    ),
    Action(
        "asking.feedback",
        "Make it feedback",
        "ctrl+f",
        "make_feedback",
        "asking",
        "Put the last question and its answer into the feedback on the proposal, to be edited and sent or not.",
        footer=2,
    ),
    Action("asking.newline", "New line", "shift+enter,ctrl+j", "newline", "asking", "Start a new line.", footer=3),
    Action("asking.undo", "Undo", "ctrl+underscore", "undo", "asking", "Take back what was typed last."),
)


IN_DIFF: tuple[Action, ...] = (
    Action("diff.down", "Down", "j,down", "cursor_down", "diff", "Next line.", moves=True),
    Action("diff.up", "Up", "k,up", "cursor_up", "diff", "Previous line.", moves=True),
    Action("diff.page_down", "Page down", "pagedown,ctrl+d", "page_down", "diff", "Next page.", moves=True),
    Action("diff.page_up", "Page up", "pageup,ctrl+u", "page_up", "diff", "Previous page.", moves=True),
    Action("diff.top", "Top", "g,home", "top", "diff", "First line.", moves=True),
    Action("diff.bottom", "Bottom", "G,end", "bottom", "diff", "Last line.", moves=True),
    Action("diff.next_hunk", "Next hunk", "right_square_bracket", "next_hunk", "diff", "Next hunk.", footer=3),
    Action("diff.previous_hunk", "Previous hunk", "left_square_bracket", "previous_hunk", "diff", "Previous hunk."),
    Action("diff.next_file", "Next file", "right_curly_bracket", "next_file", "diff", "Next file."),
    Action("diff.previous_file", "Previous file", "left_curly_bracket", "previous_file", "diff", "Previous file."),
    Action("diff.layout", "Layout", "v", "toggle_layout", "diff", "Unified or side by side.", footer=6),
    Action("diff.wrap", "Wrap", "w", "toggle_wrap", "diff", "Wrap long lines or scroll them."),
    Action(
        "diff.white_space",
        "White space",
        "W",
        "toggle_white_space",
        "diff",
        "Leave out changes in white space that says nothing, or show them.",
    ),
    Action(
        "diff.pick_lines", "Pick lines", "asterisk", "pick_lines", "diff", "Pick lines, for Space to take in or out."
    ),
    Action("diff.pick_down", "Pick down", "shift+down", "pick_down", "diff", "Pick the next line, too.", moves=True),
    Action("diff.pick_up", "Pick up", "shift+up", "pick_up", "diff", "Pick the line above, too.", moves=True),
    Action(
        "diff.next_unseen",
        "Next unseen",
        "right_parenthesis",
        "next_unseen",
        "diff",
        "To what was never on screen.",
        footer=5,
    ),
    Action("diff.folds", "Folds", "z", "toggle_folds", "diff", "Open or close unchanged stretches."),
    Action(
        "diff.all_folds", "All folds", "Z", "toggle_all_folds", "diff", "Show the whole files, or only the hunks."
    ),
    Action(
        "diff.open",
        "Open",
        "enter",
        "open",
        "diff",
        "Open or close a fold, a file or a long line; tick off a comment.",
        moves=True,
    ),
    Action("diff.left", "Left", "left,h", "scroll_code_left", "diff", "Scroll long lines to the left.", moves=True),
    Action(
        "diff.right", "Right", "right,l", "scroll_code_right", "diff", "Scroll long lines to the right.", moves=True
    ),
    Action("diff.comment", "Comment", "c", "comment", "diff", "Comment on this line.", footer=4),
    Action("diff.search", "Search", "slash", "search", "diff", "Search in the diff."),
    Action("diff.search_next", "Next match", "full_stop", "search_next", "diff", "Next match."),
    Action("diff.search_previous", "Previous match", "comma", "search_previous", "diff", "Previous match."),
    Action("diff.files", "Files", "F", "toggle_files", "diff", "Go to the list of files, or show or hide it."),
    Action(
        "diff.order", "Order", "P", "toggle_order", "diff", "The files by path, or what deserves eyes first again."
    ),
    Action(
        "diff.external",
        "Diff program",
        "D",
        "external_diff",
        "diff",
        "Show the file by the program of git's `diff.external`, such as difftastic.",
        footer=6,
    ),
    Action("diff.versions", "Versions", "V", "toggle_versions", "diff", "Show v1 against v2 of a revised proposal."),
    Action("files.down", "Down", "j,down,right_curly_bracket", "cursor_down", "files", "Next file."),
    Action("files.up", "Up", "k,up,left_curly_bracket", "cursor_up", "files", "Previous file."),
    Action("files.open", "Open", "enter", "leave", "files", "On to the diff of the file.", footer=3),
    Action("files.hide", "Hide", "F", "hide", "files", "Put the list away.", footer=2),
)


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


EVERYWHERE: tuple[Action, ...] = (
    Action("app.palette", "Palette", "ctrl+p", "app.command_palette", "app", "Find any command by name.", footer=3),
    Action("app.interrupt", "Interrupt", "escape", "app.interrupt", "app", "Stop the model at once."),
    Action("app.focus_chat", "Chat", "f2", "app.focus_chat", "app", "Go to the chat.", priority=True, footer=4),
    Action("app.focus_diff", "Diff", "f3", "app.focus_diff", "app", "Go to the diff.", priority=True, footer=4),
    Action(
        "app.focus_approvals",
        "Approvals",
        "f4",
        "app.focus_approvals",
        "app",
        "Go to the approvals.",
        priority=True,
        footer=4,
    ),
    Action(
        "app.help",
        "Help",
        "f1",
        "app.command('help')",
        "app",
        "All keys and commands.",
        priority=True,
        command="help",
        footer=1,
    ),
    Action(
        "app.quit",
        "Quit",
        "ctrl+q",
        "app.quit",
        "app",
        "Leave signoff; nothing is lost.",
        priority=True,
        command="quit",
        footer=6,
    ),
    Action(
        "app.suspend",
        "Suspend",
        "ctrl+z",
        "app.suspend_process",
        "app",
        "Back to the shell for a while; `fg` comes back.",
        priority=True,
    ),
    Action("app.new", "New session", "", "app.command('new')", "app", "Start afresh.", command="new"),
    Action(
        "app.sessions",
        "Sessions",
        "",
        "app.command('sessions')",
        "app",
        "Pick an earlier session to go on with.",
        command="sessions",
    ),
    Action(
        "app.search",
        "Search",
        "",
        "app.command('search')",
        "app",
        "Find what was said, proposed or read in any session of this workspace, and open it there.",
        command="search",
        argument="[WORDS]",
    ),
    Action(
        "app.todos",
        "To-do list",
        "ctrl+o",
        "app.command('todos')",
        "app",
        "Unfold or fold what the model has still to do.",
        priority=True,
        command="todos",
    ),
    Action(
        "app.rename",
        "Rename session",
        "",
        "app.command('rename')",
        "app",
        "Give this session a title of your own.",
        command="rename",
        argument="TITLE",
    ),
    Action(
        "app.resume",
        "Resume",
        "",
        "app.command('resume')",
        "app",
        "Go on with the session before this one, or with the one named.",
        command="resume",
        argument="[ID]",
    ),
    Action("app.fork", "Fork", "", "app.command('fork')", "app", "Go on in a copy of this session.", command="fork"),
    Action(
        "app.continue",
        "Continue",
        "",
        "app.command('continue')",
        "app",
        "Open the gate and let the model go on; also after a failed request.",
        command="continue",
    ),
    Action(
        "app.model",
        "Model",
        "",
        "app.command('model')",
        "app",
        "Choose another model of the endpoint.",
        command="model",
        argument="[NAME]",
    ),
    Action(
        "app.effort",
        "Reasoning effort",
        "",
        "app.command('effort')",
        "app",
        "How much the model is to reason before it answers; off leaves it to the server.",
        command="effort",
        argument="[off|none|minimal|low|medium|high|xhigh|max]",
    ),
    Action(
        "app.theme",
        "Theme",
        "",
        "app.command('theme')",
        "app",
        "Choose another theme.",
        command="theme",
        argument="[NAME]",
    ),
    Action(
        "app.gate",
        "Gate policy",
        "",
        "app.command('gate')",
        "app",
        "When the gate closes: after every edit, or after N steps that stage one.",
        command="gate",
        argument="[every-edit|chain N]",
    ),
    Action(
        "app.plan",
        "Plan mode",
        "",
        "app.command('plan')",
        "app",
        "Let the model look and plan, and change nothing; again to end it.",
        command="plan",
        argument="[on|off]",
    ),
    Action(
        "app.worktree",
        "Review what is on disk",
        "",
        "app.command('worktree')",
        "app",
        "Propose what is changed on disk against git's index: yes keeps it, no takes it back off the disk.",
        command="worktree",
        argument="[--all] [PATH …]",
    ),
    Action(
        "app.from",
        "Review a commit",
        "",
        "app.command('from')",
        "app",
        "Propose a commit, a branch, a range or a pull request.",
        command="from",
        argument="[--all] REF|A..B|URL|REMOTE REF",
    ),
    Action(
        "app.compact",
        "Compact",
        "",
        "app.command('compact')",
        "app",
        "Make room in the model's context.",
        command="compact",
    ),
    Action(
        "app.export",
        "Export",
        "",
        "app.command('export')",
        "app",
        "Write this session as Markdown to a file.",
        command="export",
        argument="[FILE]",
    ),
    Action(
        "app.doctor",
        "Doctor",
        "",
        "app.command('doctor')",
        "app",
        "Check what the endpoint honours.",
        command="doctor",
    ),
    Action(
        "app.verify",
        "Verify",
        "",
        "app.command('verify')",
        "app",
        "Check that reviews cover the commits to be pushed.",
        command="verify",
    ),
    Action(
        "app.wire",
        "Wire",
        "",
        "app.command('wire')",
        "app",
        "Show exactly what the last request said.",
        command="wire",
    ),
    Action(
        "app.settings",
        "Settings",
        "",
        "app.command('settings')",
        "app",
        "Change settings and save them.",
        command="settings",
    ),
    Action(
        "app.interventions",
        "Interventions",
        "",
        "app.command('interventions')",
        "app",
        "Show or hide what signoff tells the model.",
        command="interventions",
    ),
    Action(
        "app.trust",
        "Trust",
        "",
        "app.command('trust')",
        "app",
        "Trust what files of the workspace would set and start, as they are now.",
        command="trust",
    ),
    Action(
        "app.mcp",
        "MCP servers",
        "",
        "app.command('mcp')",
        "app",
        "MCP servers, their tools and logs; switch them on and off.",
        command="mcp",
    ),
    Action(
        "app.layout",
        "Diff layout",
        "",
        "app.command('layout')",
        "app",
        "How the diff is laid out: by its width, unified or side by side.",
        command="layout",
        argument="[auto|unified|split]",
    ),
    Action(
        "app.wrap",
        "Diff wrap",
        "",
        "app.command('wrap')",
        "app",
        "Whether long lines in the diff wrap.",
        command="wrap",
        argument="[on|off]",
    ),
    Action(
        "app.skills",
        "Skills",
        "",
        "app.command('skills')",
        "app",
        "What the model can read up on, and where it comes from.",
        command="skills",
    ),
    Action(
        "app.vim",
        "Vim keys",
        "",
        "app.command('vim')",
        "app",
        "Vim's keys in the composer and where a proposed text is edited.",
        command="vim",
        argument="[on|off]",
    ),
    Action(
        "app.keys",
        "Keys",
        "",
        "app.command('keys')",
        "app",
        "The keys in force; the configuration can move each of them.",
        command="keys",
    ),
)


_LINE = re.compile(r"/([^\W\d_][\w:-]*)(?:\s+(.*))?$", re.DOTALL)


def slash_call(text: str) -> tuple[str, str] | None:
    """Name, in lower case, and argument; None if the text, without space around it, calls nothing."""
    found = _LINE.match(text)
    return None if found is None else (found[1].lower(), (found[2] or "").strip())


__all__ = ["ACTIONS", "Action", "Scope", "bindings", "in_scope"]

ACTIONS: tuple[Action, ...] = (*EVERYWHERE, *IN_REVIEW, *IN_DIFF, *IN_CHAT)
"""Every action, in the order in which help lists them."""


def bindings(*scopes: Scope, through: str = "") -> list["Binding"]:
    """The bindings of these scopes, each with its registry id so that a keymap can move it.

    Args:
        scopes: Whose.
        through: The action of a widget that hands each of them on, by the name of its handler.
    """
    from textual.binding import Binding

    return [
        Binding(
            action.keys,
            f"{through}({action.handler!r})" if through else action.handler,
            action.title,
            id=action.id,
            show=action.footer > 0,
            priority=action.priority,
        )
        for action in in_scope(*scopes)
        if action.keys
    ]


def in_scope(*scopes: Scope) -> Iterable[Action]:
    """The actions of these scopes, in registry order."""
    return (action for action in ACTIONS if action.scope in scopes)
