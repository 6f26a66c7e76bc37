"""Names that this disk takes and another one does not, or takes for something else: a review should tell of them.

The rules are those of Windows ("Naming Files, Paths, and Namespaces") and of streams on NTFS.
"""

import re

_DEVICE = re.compile(r"(?:con|prn|aux|nul|conin\$|conout\$|(?:com|lpt)[0-9\u00b9\u00b2\u00b3])", re.IGNORECASE)
_NEVER = re.compile(r'[<>"|?*]')


def trouble_elsewhere(path: str) -> str:
    """What Windows makes of a file with this path, as a sentence; empty if nothing else than here."""
    for name in path.split("/"):
        if _DEVICE.fullmatch(re.split(r"[.:]", name)[0].rstrip(" ")):
            return f"On Windows {name!r} is a device, not a file."
        if ":" in name:
            return f"On Windows {name!r} is a hidden stream of the file {name.partition(':')[0]!r}."
        if name != name.rstrip(" ."):
            return f"On Windows {name!r} is the same file as {name.rstrip(' .')!r}."
        if found := _NEVER.search(name):
            return f"On Windows no name can have {found[0]}, so {name!r} cannot be checked out."
    return ""
