"""Shared by all parts of the app: the app context, preferences, slash commands, and the current session."""
