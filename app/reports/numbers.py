"""How numbers are written in reports."""


def number(value: float | None) -> str:
    """Return a number with four decimals, or four significant digits where those say more.

    >>> number(0.98333), number(-0.00004), number(12345.6), number(1.0), number(3e-17), number(None)
    ('0.9833', '-4.0e-05', '12350', '1.0000', '0', 'undefined')
    """
    if value is None:
        return "undefined"
    if abs(value) < 1e-12:
        return "0"
    if abs(value) >= 1000:
        return f"{float(f'{value:.4g}'):.0f}"
    if abs(value) >= 10:
        return f"{value:.4g}"
    return f"{value:.4f}" if abs(value) >= 0.0001 else f"{value:.1e}"


def radius(epsilon: object) -> str:
    """Return an attack radius as people write it: in grey levels where it is a whole or half number of them.

    Not where the decimal is as short: 0.1 is 25.5 grey levels.

    >>> radius(8 / 255), radius(0.5 / 255), radius("0.0156863"), radius(0.1), radius("0"), radius(1e-300)
    ('8/255', '0.5/255', '4/255', '0.1', '0', '1e-300')
    """
    try:
        value = float(str(epsilon))
    except ValueError:
        return str(epsilon)
    decimal = f"{value:g}"
    halves = round(value * 510) if 0 < value <= 1 else 0
    is_in_levels = halves > 0 and abs(value * 510 - halves) < 1e-3 and len(decimal) > len("0.0157")
    return f"{halves / 2:g}/255" if is_in_levels else decimal
