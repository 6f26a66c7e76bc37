"""The review without a screen: waiting items, seen lines, verdicts of decisions, and their words."""
