"""Signed statements about reviews, kept in git's notes, and their verification against commits."""
