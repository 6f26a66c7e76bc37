"""Failed requests: their kind, their message for the user, and whether to retry."""
