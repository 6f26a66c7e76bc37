"""Find where in a file an edit belongs."""
