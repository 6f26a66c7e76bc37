"""The folder that the user opened: paths, ignore rules, watching, git facts, trust."""
