"""The SQLite store of sessions, proposals and the apply journal."""
