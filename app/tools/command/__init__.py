"""The tool that runs commands."""
