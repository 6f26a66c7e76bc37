"""Ways in for the edits of others: what they propose waits here, and what the user decides goes back to them."""
