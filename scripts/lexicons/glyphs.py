"""Make the tables of look-alikes that are shipped: which characters DejaVu Sans draws most like each ASCII character.

    python -m scripts.lexicons.glyphs /usr/share/fonts/truetype/dejavu/DejaVuSans.ttf

The font is Debian's fonts-dejavu-core 2.37. Each character is drawn 24 pixels wide and high, in size 22 from (2, 0), as
Eger et al. (2019, "Text Processing Like Humans Do") draw theirs; what two have in common is the cosine of their pixels
(their ICES). Characters are the letters, numbers, marks of punctuation and symbols the font has up to U+058E, which is
what Zéroe's own table covers, or in the whole Basic Multilingual Plane. What leaves no mark in its square (the
underscore) has no look-alikes. Only similarities are kept of the font, no outlines.
"""

import json
import sys
import unicodedata
from pathlib import Path

import numpy as np
from matplotlib.ft2font import FT2Font
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

DATA = Path(__file__).resolve().parents[2] / "seatrial" / "noise" / "data"
SPACES = {"glyphs-dejavu.json": 0x058E, "glyphs-dejavu-bmp.json": 0xFFFF}
"""The last character among which neighbours are sought, by the table's file."""
NEIGHBOURS = 20
PIXELS = 24
SIZE = 22


def main() -> None:
    """Write both tables."""
    font = Path(sys.argv[1])
    for name, last in SPACES.items():
        listed = neighbours(font, last)
        lines = (
            f"{json.dumps(one, ensure_ascii=False)}: {json.dumps(others, ensure_ascii=False)}"
            for one, others in listed.items()
        )
        (DATA / name).write_text("{\n" + ",\n".join(lines) + "\n}\n", "utf-8")


def neighbours(font: Path, last: int) -> dict[str, list[tuple[str, float]]]:
    """Return the nearest characters of each printable ASCII character with their cosines, nearest first."""
    characters, images = _drawn(font, last)
    listed = {}
    for place, character in enumerate(characters):
        if character.isascii():
            alike = images @ images[place]
            alike[place] = -1.0
            nearest = np.argsort(-alike, kind="stable")[:NEIGHBOURS]
            listed[character] = [(characters[each], round(float(alike[each]), 5)) for each in nearest]
    return listed


def _drawn(font: Path, last: int) -> tuple[list[str], NDArray[np.float64]]:
    """Return the characters that leave a mark, and their images (characters, pixels) of norm 1."""
    has = FT2Font(font).get_charmap()
    drawing = ImageFont.truetype(str(font), SIZE)
    characters, images = [], []
    for character in map(chr, range(0x21, last + 1)):
        if ord(character) in has and unicodedata.category(character)[0] in "LNPS":
            image = Image.new("L", (PIXELS, PIXELS))
            ImageDraw.Draw(image).text((2, 0), character, fill=255, font=drawing)
            pixels = np.asarray(image, dtype=np.float64).ravel()
            if pixels.any():
                characters.append(character)
                images.append(pixels / np.linalg.norm(pixels))
    return characters, np.stack(images)


if __name__ == "__main__":
    main()
