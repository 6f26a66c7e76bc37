"""What an endpoint honours: known, learned, asked."""
