"""How far two texts begin alike, by bisection: each step is one comparison of slices, however long they are.

Kept apart: the marks of a diff and the keys of an editor ask it alike.
"""


def same_start(left: str, right: str) -> int:
    """How many characters both begin with."""
    low, high = 0, min(len(left), len(right))
    while low < high:
        middle = (low + high + 1) // 2
        if left[low:middle] == right[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low
