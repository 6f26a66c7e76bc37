"""The review without a screen: waiting items, seen lines, verdicts on decisions, and their texts."""
