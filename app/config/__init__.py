"""What may be set, in which file, and which file counts."""
