"""What of a proposal deserves eyes first, and why: computed from the change alone, fixed when it is staged."""
