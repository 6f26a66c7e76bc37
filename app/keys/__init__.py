"""The actions of keys, the palette, slash commands and the help screen, and the user's keymap."""
