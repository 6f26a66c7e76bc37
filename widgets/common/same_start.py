"""Length of the common prefix of two texts, by bisection over slices."""


def common_prefix_length(left: str, right: str) -> int:
    """Return how many characters both texts begin with."""
    low, high = 0, min(len(left), len(right))
    while low < high:
        middle = (low + high + 1) // 2
        if left[low:middle] == right[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low
