"""Tests that risky hunks come first: in commits with a planted defect, and in any repository."""
