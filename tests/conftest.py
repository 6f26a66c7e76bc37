"""What holds for all tests: the terminal that they believe to be in, whatever they are really run from."""

import os

os.environ.update(TERM="xterm-256color", COLORTERM="truecolor")
for _name in (
    "NO_COLOR",
    "FORCE_COLOR",
    "TEXTUAL_COLOR_SYSTEM",
    "TEXTUAL_THEME",
    "OPENAI_API_KEY",
    "OPENAI_BASE_URL",
):
    os.environ.pop(_name, None)
