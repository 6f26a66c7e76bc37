"""Text for the user: unsafe and deceptive characters, hashes of lines, and quantities in words."""
