"""The user's decisions for other agents: waiting for them, and their description in text."""
