"""Real agents against a scripted model: Claude Code, Codex and Gemini CLI, where they are installed."""
