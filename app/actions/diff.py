"""What works in the diff preview and in the list of its files."""

from app.actions.action import Action

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
