"""The session's append-only log and its projection to the payload of a request."""
