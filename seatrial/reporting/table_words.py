"""What a report says of images, said of rows of a table: the same methods, in other units."""

import re

from seatrial.contracts.models import TABLES
from seatrial.reporting.schemas import Answer, ReportCheck, ReportRead

# Longer phrases first: what is left of images and pixels is named by the last four.
_PHRASES = (
    ("each pixel (on a scale from 0 to 1)", "each column (in standard deviations)"),
    ("of the pixels' range, which 8-bit images lie on", "of a standard deviation"),
    ("on pixels in [0, 1]", "in standard deviations of each column"),
    ("on pixels from 0 to 1", "in standard deviations of each column"),
    ("pixels in [0, 1]", "in standard deviations of each column"),
    ("a shift or a rotation of the image often is longer", "a small change of every column often is longer"),
    ("Images have values between those of 8 bits.", "Rows have values off the grid."),
    (", 64 times as fine as 8 bits", " of a standard deviation"),
    (" (8-bit images lie on it)", ""),
    ("a grid that 8-bit images lie on", "a grid"),
    ("every 8-bit image", "every row on the grid"),
    ("No 8-bit images", "No rows on the grid"),
    ("8-bit images", "rows on the grid"),
    ("pixel l_2", "l_2 in standard deviations"),
    ("pixels are not clipped", "values are not clipped"),
)
_WORDS = {"image": "row", "images": "rows", "pixel": "column", "pixels": "columns"}
_ARTICLE = re.compile(r"\b([Aa])n (?=image\b)")
_WORD = re.compile(r"\b([Ii]mages?|[Pp]ixels?)\b")


def said_of_rows(text: str) -> str:
    """Return a sentence about images as one about rows of a table.

    >>> said_of_rows("An image is one of clean images.")
    'A row is one of clean rows.'
    >>> said_of_rows("The softmax of many clean images is one-hot. Images in l_2, on pixels in [0, 1].")
    'The softmax of many clean rows is one-hot. Rows in l_2, in standard deviations of each column.'
    """
    for phrase, instead in _PHRASES:
        text = text.replace(phrase, instead)

    def word(match: re.Match[str]) -> str:
        found = _WORDS[match[1].lower()]
        return found.capitalize() if match[1][0].isupper() else found

    return _WORD.sub(word, _ARTICLE.sub(r"\1 ", text))


def in_words_of(task: str, report: ReportRead) -> ReportRead:
    """Return a report in the words of what the model does: its numbers, names and parameters as they are."""
    if task != TABLES:
        return report
    return report.model_copy(
        update={
            "answer": _answer(report.answer),
            "checks": [_check(check) for check in report.checks],
            "glossary": [one.model_copy(update={"meaning": said_of_rows(one.meaning)}) for one in report.glossary],
        }
    )


def _answer(answer: Answer) -> Answer:
    findings = [said_of_rows(one) for one in answer.findings]
    return answer.model_copy(update={"headline": said_of_rows(answer.headline), "findings": findings})


def _check(check: ReportCheck) -> ReportCheck:
    def described(one: str) -> dict[str, str]:
        return {"description": said_of_rows(one)}

    return check.model_copy(
        update={
            "question": said_of_rows(check.question),
            "answer": _answer(check.answer),
            "params": [one.model_copy(update=described(one.description)) for one in check.params],
            "flags": [one.model_copy(update={"message": said_of_rows(one.message)}) for one in check.flags],
            "estimates": [
                one.model_copy(update=described(one.description) | {"unit": said_of_rows(one.unit)})
                for one in check.estimates
            ],
            "figures": [
                one.model_copy(update={"alt": said_of_rows(one.alt), "svg": one.svg and said_of_rows(one.svg)})
                for one in check.figures
            ],
        }
    )
