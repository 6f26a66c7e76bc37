"""Measures on a real project whether "none of the tests that ran notices" agrees with mutants that survive."""
