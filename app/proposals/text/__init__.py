"""Documents, and the differences between them."""
