"""Evidence at hunks: runs tests on layers without a hunk, and classifies the result."""
