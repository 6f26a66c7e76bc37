"""Where in a file an edit belongs."""
