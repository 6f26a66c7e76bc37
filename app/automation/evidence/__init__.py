"""What notices if a hunk is missing: layers without it, the tests that run there, and what they show."""
