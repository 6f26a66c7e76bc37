"""Import transcripts of other programs as events of a session."""
