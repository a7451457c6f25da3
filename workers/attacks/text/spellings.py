"""Signs, endings, sounds and letters in other forms: what ways to write words are put together from."""

import string

from workers.attacks.text.marked_words import PAIRS

WORD = r"(?<!\w)[^\W\d_]{2,}(?!\w)"
"""A word of two letters and more that stands by itself."""

SIGNS = (
    *string.punctuation,
    *"\u2019\u201c\u201d\u2013\u2014\u2026\u00b7\u2022\u00b0\u2122\u00ae\u00a7\u00b6\u20ac\u00bf\u00a1",
    *("\u200b", "\u00ad", "\u200d", "\ufeff", "\u0301", "\u0308", "\u0327"),
    *("...", "--", "(s)", "[1]", "!!", "??", "''", ":)", "&nbsp;"),
)
GAPS = (
    *string.punctuation,
    *"\u2019\u2013\u2014\u2026\u00b7\u2022\u200b\u00a0\n\t",
    *("  ", "   ", "\n\n", "--", "...", ""),
)
AROUND = (
    *((pair[: len(pair) // 2], pair[len(pair) // 2 :]) for pair in (*PAIRS, "{}", "<>", "''", "``", "~~", "//", "||")),
    *((pair[0], pair[1]) for pair in ("\u201c\u201d", "\u2018\u2019", "\u00ab\u00bb", "**", "__", "--", "==")),
    *(("<b>", "</b>"), ("<i>", "</i>"), ("--", "--")),
)
BEFORE = (*"oeix@#$", "re", "be", "mc", "pre-", "hyper", "mr")
NOTES = ("[1]", "(1)", "\u00b9", "*", "\u2020", "\u2122", "\u00ae", "[sic]", "(!)", "(?)", ":", "/")
BEHIND = (
    *(*"sxyoze", "ed", "ing", "ly", "ish", "er", "ie", "en", "es", "'s", "s'", "'d", "ness", "est", "(es)", "(s)"),
    *NOTES,
)
"""What is put behind a word: endings, and what refers to a note, a right or a doubt."""

PARTING = ("-", "-\n", "/", "|", ".", "'", "\u00b7", "--")
KEYS = dict(zip("qwertyuiopasdfghjklzxcvbnm", "wertyuioiosdfghjkhxcvbnmnn", strict=True))
SOUNDS = (
    *(
        ("[rl]", "w"),
        ("th", "d"),
        ("th", "f"),
        ("th", "v"),
        ("th", "z"),
        ("s", "th"),
        ("v", "b"),
        ("b", "v"),
        ("c|k", "q"),
    ),
    *(("c", "k"), ("ph", "f"), ("f", "ph"), ("w", "v"), ("v", "w"), ("z", "s"), ("s", "z"), ("ee|ea", "i")),
    *(("oo", "u"), ("i", "y"), ("y", "i"), ("x", "ks"), ("ck", "k"), ("e", "a"), ("o", "u"), ("ou", "ow")),
    *(("er", "a"), ("ing", "in'"), ("l", "r"), ("r", "l"), ("t", "d"), ("d", "t"), ("p", "b"), ("g", "j")),
    *(("m", "n"), ("u", "v"), ("g", "k"), ("h", ""), ("rn", "m"), ("m", "rn"), ("d", "cl"), ("w", "vv")),
    *(("s", "\u017f"), ("ss", "\u00df"), ("a", "e"), ("qu", "kw"), ("tion", "shun"), ("igh", "ite"), ("s", "5")),
)
"""How a sound is written, and how else."""

FORMS: tuple[dict[str, str], ...] = (
    dict(zip("aeiostlgbz", "4310571982", strict=True)),
    dict(zip("aeiops", "@\u20ac!()$", strict=True)),
    dict(zip("aeopcxyik", "\u0430\u0435\u043e\u0440\u0441\u0445\u0443\u0456\u043a", strict=True)),
    *(dict(zip("aeiou", form, strict=True)) for form in ("áéíóú", "àèìòù", "äëïöü", "âêîôû", "āēīōū")),
    *(
        dict(zip("aeiou", form.split(), strict=True))
        for form in ("Ã¡ Ã© Ã­ Ã³ Ãº", "&aacute; &eacute; &iacute; &oacute; &uacute;")
    ),
    *(
        {one: chr(first + at) for at, one in enumerate(string.ascii_lowercase)}
        for first in (0xFF41, 0x24D0, 0x1D41A, 0x1D5BA, 0x1D68A)
    ),
)
"""Letters in other forms: digits, signs, Cyrillic, accents, accents decoded wrongly, wide, circled, mathematical."""

OPENINGS = (*SIGNS, "oh", "well", "so", "note:", "re:", "1.", "a)", "hi,")
