"""Build the messages of a request from the log."""
