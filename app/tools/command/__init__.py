"""The tool that runs commands, and what may run unasked."""
