"""What the transcript shows: one class for each kind of thing said or done, which knows how it looks."""
