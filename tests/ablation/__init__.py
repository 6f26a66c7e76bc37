"""Measures on a real project whether evidence of unnoticed hunks agrees with mutants that survive all tests."""
