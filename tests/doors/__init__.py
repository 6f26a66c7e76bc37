"""Real agents with a scripted model: Claude Code, Codex, Gemini CLI and others, if they are installed."""
