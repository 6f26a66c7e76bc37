"""Dealings with the terminal besides drawing."""
