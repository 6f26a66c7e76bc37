"""Tools that list and search files."""
