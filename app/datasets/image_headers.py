"""Reading the header of an encoded image: what it is and how large, without decoding it."""

import io

from PIL import Image

from seatrial.ingest.inspection.errors import ContentError
from seatrial.ingest.inspection.image_layout import IMAGE_FORMATS, MAX_SIDE

MAX_IMAGE_BYTES = 64 * 2**20
GREY_MODES = frozenset({"1", "L", "LA", "La"})


def read_image_shape(data: bytes, where: str) -> tuple[int, int, int]:
    """Return channels (1 or 3), height and width of an encoded image.

    Raises:
        ContentError: The bytes are no image of an accepted format, too large, or of more than 8 bits per channel.
    """
    try:
        with Image.open(io.BytesIO(data), formats=IMAGE_FORMATS) as image:
            width, height = image.size
            mode = image.mode
    except Exception as error:
        # Pillow's header parsers let through whatever they stumble over: struct.error, SyntaxError, KeyError, ...
        raise ContentError(
            f"{where} is not an image that can be read ({type(error).__name__}): PNG, JPEG, WebP, BMP or PPM is "
            "expected"
        ) from error
    if not (1 <= width <= MAX_SIDE and 1 <= height <= MAX_SIDE):
        raise ContentError(f"{where} is {width} x {height} pixels: sides of 1 to {MAX_SIDE} are accepted")
    if mode.startswith(("I", "F")):
        raise ContentError(f"{where} has more than 8 bits per channel (mode {mode}): convert it to 8 bits")
    return (1 if mode in GREY_MODES else 3, height, width)


class ShapeSummary:
    """The one shape of all images, or the fact that they differ."""

    def __init__(self) -> None:
        self._sizes: set[tuple[int, int]] = set()
        self._channels = 1

    def add(self, shape: tuple[int, int, int]) -> None:
        """Take note of one image's channels, height and width."""
        self._channels = max(self._channels, shape[0])
        if len(self._sizes) < 2:
            self._sizes.add(shape[1:])

    @property
    def shape(self) -> list[int] | None:
        """Channels, height, width; None when the images differ in size."""
        if len(self._sizes) != 1:
            return None
        ((height, width),) = self._sizes
        return [self._channels, height, width]
