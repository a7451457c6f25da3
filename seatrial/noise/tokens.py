"""English tokens where they stand, close to those of NLTK's word tokenizer, by which the published numbers count."""

import re

from seatrial.noise.unspaced import is_unspaced, pieces

_ALONE = r"""\[\](){}<>;@#$%&?!*"«»`\u2018\u201c-\u201e\u2026\u2012-\u2015"""
"""Characters that are in no word, as a class of a regular expression has them: brackets, signs, quotes, dashes.

An apostrophe, straight or curly (U+2019), may be in a word."""

_SHORT_FORMS = (
    "Mr Ms Dr St Jr Sr vs No Lt Co",
    "Mrs Gen Sen Rep Gov Col Sgt Rev Hon Inc Ltd Jan Feb Mar Apr Jun Jul Aug Sep Oct Nov Dec",
    "Prof Capt Corp Sept",
)
"""Words whose full stop ends no sentence, by their length: Python looks back over fixed widths."""

_NO_SHORT_FORM = r"(?<!\b\w)" + "".join(rf"(?<!\b(?:{same.replace(' ', '|')}))" for same in _SHORT_FORMS)
_CLOSED = r"""\.[\])}>"'»\u201d\u2019]*+"""
# Behind the full stop the text ends, or a word begins that is not in lower case.
_FINAL_STOP = rf"""(?:{_CLOSED}\s*+\Z|{_NO_SHORT_FORM}{_CLOSED}\s++["'«\u201c\u2018(\[]*+[^\Wa-z_])"""

_ENDING = r"(?i:s|m|d|ll|re|ve)(?![\w-])"
_NOT = r"['\u2019][tT](?!\w)"

_WORD = (
    rf"(?:[^\s{_ALONE}:,.'\u2019\-nN]++|[nN](?!{_NOT})|[:,](?=\d)|-(?!-)|(?!{_FINAL_STOP})\.(?!\.)"
    rf"|(?<=\w)['\u2019](?!{_ENDING})(?=\w))++"
)
_CLITIC = rf"[nN]{_NOT}|['\u2019](?:{_ENDING}|[tTnN](?!\w))"
_TWO_IN_ONE = r"(?i:can(?=not\b)|gim(?=me\b)|gon(?=na\b)|got(?=ta\b)|lem(?=me\b)|wan(?=na\b)|more(?='n\b))"

_TOKEN = re.compile(rf"({_TWO_IN_ONE}|{_WORD}|{_CLITIC}|\.{{2,}}|-{{2,}}|''|`+|\S)")


def between_tokens(text: str) -> list[str]:
    """Return a text in parts: white space, a token, white space, ..., a token, white space.

    Every character that is no white space is in a token, so the parts at even places are white space or empty, and all
    of them together are the text again.

    Rules are those of the Penn Treebank: punctuation stands apart, as do ``n't``, ``'s`` and the like, and the full
    stop of a sentence; hyphens, slashes, the commas of numbers and the full stops of abbreviations stay in their words.
    Where a sentence ends inside a text is told by the capital after it; NLTK asks a model it downloads. Scripts that
    put no space between words are cut as :func:`seatrial.noise.unspaced.pieces` says.

    >>> between_tokens("We can't, Mr. Li.")
    ['', 'We', ' ', 'ca', '', "n't", '', ',', ' ', 'Mr.', ' ', 'Li', '', '.', '']
    >>> between_tokens("非常好看。")
    ['', '非常', '', '好看', '', '。', '']
    """
    parts: list[str] = _TOKEN.split(text)
    if not is_unspaced(text):
        return parts
    cut = parts[:1]
    for token, space in zip(parts[1::2], parts[2::2], strict=True):
        for piece in pieces(token):
            cut += [piece, ""]
        cut[-1] = space
    return cut


def tokens(text: str) -> list[str]:
    """Return the tokens of a text.

    >>> tokens("They're in the U.S. Army; I'd paid 1,000.5 dollars. Why?")
    ['They', "'re", 'in', 'the', 'U.S.', 'Army', ';', 'I', "'d", 'paid', '1,000.5', 'dollars', '.', 'Why', '?']
    """
    return between_tokens(text)[1::2]
