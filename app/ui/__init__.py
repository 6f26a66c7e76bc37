"""The Textual app: what joins session and panes, its screens, and its dealings with the terminal."""
