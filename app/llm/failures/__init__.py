"""What went wrong with a request, and what to do about it."""
