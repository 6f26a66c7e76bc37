"""From the log to the messages of a request."""
