"""Actions that a key, the palette, a slash command or the help screen can run, and the user's keymap."""
