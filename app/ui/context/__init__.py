"""What every part of the app shares: the app context, preferences, slash commands, and the current session."""
