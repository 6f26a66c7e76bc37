"""Find what deserves attention in a proposal, and order its files for review."""
