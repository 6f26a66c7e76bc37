"""Configuration: the settings, the files that set them, and their precedence."""
