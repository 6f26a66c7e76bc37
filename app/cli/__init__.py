"""From argv to an exit code: the parser, and a module for each group of commands."""
