"""The review without a screen: what waits, what was seen, what a decision means, and the words for it."""
