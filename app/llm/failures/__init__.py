"""Failed requests: their kind, their message to the user, and whether to retry."""
