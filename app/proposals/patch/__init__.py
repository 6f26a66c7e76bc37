"""Read patches from other programs, find their places and apply them."""
