"""Commands of the user's own: Markdown files that become messages."""
