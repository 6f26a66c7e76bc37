"""The tool that runs commands, and the commands that run without a question."""
