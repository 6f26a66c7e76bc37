"""Evidence for hunks: runs tests without a hunk, and classifies the result."""
