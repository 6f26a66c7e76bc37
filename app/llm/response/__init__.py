"""Parse the bytes of a response into text and calls."""
