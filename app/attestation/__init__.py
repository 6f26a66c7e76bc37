"""Signed statements about reviews, stored in git's notes, and their verification against commits."""
