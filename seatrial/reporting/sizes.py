"""Bytes for people."""


def size(count: int | None) -> str:
    """Return bytes for people, in powers of 1,000.

    >>> size(812), size(49_737_828), size(3_000_000_000), size(999_999), size(None)
    ('812 bytes', '49.7 MB', '3.0 GB', '1.0 MB', 'not known')
    """
    if count is None:
        return "not known"
    for unit, ending in ((10**12, "TB"), (10**9, "GB"), (10**6, "MB"), (10**3, "kB")):
        if count >= 0.99995 * unit:
            return f"{count / unit:.1f} {ending}"
    return f"{count:,} bytes"
