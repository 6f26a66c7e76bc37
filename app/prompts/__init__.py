"""Custom commands and skills: Markdown files that become messages or instructions for the model."""
