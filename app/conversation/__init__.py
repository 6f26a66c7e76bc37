"""The append-only log of a session and its projection to the payload of a request."""
