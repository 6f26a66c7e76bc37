"""How many tokens a picture is: by the vendors' formulas, the one that gives the most.

What the server counts corrects the estimate from the second request on. Kept apart: limits hold, this is a guess.
"""

from math import ceil

_CLAUDE_SIDE, _CLAUDE_PATCH, _CLAUDE_MOST = 2_576, 28, 4_784
"""Claude's largest: fitted to a side, counted in patches, up to a limit."""
_GPT_PATCH, _GPT_PATCHES, _GPT_FACTOR = 32, 1_536, 1.62
"""GPT's later models: patches, up to a number of them, and what one of them counts in the smaller models."""
_TILE, _TILES_FIT, _TILES_SHORT, _TILES_BASE, _TILES_EACH = 512, 2_048, 768, 85, 170
"""GPT-4o: fitted to a square, then to a short side, counted in tiles."""


def image_tokens(width: int, height: int) -> int:
    """Tokens of a picture of this size in pixels."""
    return max(_claude(width, height), _gpt_patches(width, height), _gpt_tiles(width, height))


def _claude(width: int, height: int) -> int:
    scale = min(1.0, _CLAUDE_SIDE / max(width, height))
    return min(_CLAUDE_MOST, ceil(width * scale / _CLAUDE_PATCH) * ceil(height * scale / _CLAUDE_PATCH))


def _gpt_patches(width: int, height: int) -> int:
    return ceil(min(_GPT_PATCHES, ceil(width / _GPT_PATCH) * ceil(height / _GPT_PATCH)) * _GPT_FACTOR)


def _gpt_tiles(width: int, height: int) -> int:
    scale = min(1.0, _TILES_FIT / max(width, height))
    scale = min(scale, _TILES_SHORT / min(width, height))
    return _TILES_BASE + _TILES_EACH * ceil(width * scale / _TILE) * ceil(height * scale / _TILE)
