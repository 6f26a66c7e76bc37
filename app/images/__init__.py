"""Images that the user attaches to messages."""
