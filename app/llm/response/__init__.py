"""From the bytes of a response to text and calls."""
