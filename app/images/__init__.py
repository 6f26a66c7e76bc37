"""Pictures that the user attaches to a message."""
