"""Grey and colour."""

import io
from collections.abc import Iterable, Sequence
from math import prod

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from seatrial.ingest.inspection.image_layout import IMAGE_FORMATS, MAX_SIDE
from seatrial.store.settings import Settings
from workers.errors import DataError, log_fault

# ITU-R BT.601, as Pillow converts RGB to L.
LUMA = (0.299, 0.587, 0.114)


def to_channels(images: Tensor, channels: int) -> Tensor:
    """Return images (n, channels, height, width) from images with 1 or 3 channels.

    Raises:
        DataError: There is no way from one number of channels to the other.

    >>> to_channels(torch.ones(2, 1, 4, 4), 3).shape
    torch.Size([2, 3, 4, 4])
    """
    have = images.shape[1]
    if have == channels:
        return images
    if have == 1:
        return images.expand(-1, channels, -1, -1)
    if have == 3 and channels == 1:
        return (images * images.new_tensor(LUMA).view(1, 3, 1, 1)).sum(1, keepdim=True)
    raise DataError(
        "channel-mismatch",
        "The images have other channels than the model takes",
        f"images have {have} channels, the model takes {channels}",
        field="/dataset",
    )


def decode_image(data: bytes, channels: int, where: str) -> Tensor:
    """Return one encoded image as uint8 (channels, height, width).

    Raises:
        DataError: It does not decode.
    """
    try:
        with Image.open(io.BytesIO(data), formats=IMAGE_FORMATS) as image:
            if max(image.size) > MAX_SIDE:
                raise DataError(
                    "image-undecodable",
                    "An image does not decode",
                    f"{where} has {image.width} x {image.height} pixels, sides of 1 to {MAX_SIDE} are accepted",
                    field="/dataset",
                )
            pixels = np.asarray(image.convert("L" if channels == 1 else "RGB"))
    except DataError:
        raise
    except Exception as error:
        # Pillow's decoders let through whatever they stumble over: struct.error, SyntaxError, OSError, ...
        raise DataError(
            "image-undecodable",
            "An image does not decode",
            f"{where}: Pillow cannot read it ({log_fault(error)})",
            field="/dataset",
        ) from error
    values = torch.from_numpy(np.array(pixels))
    return values.unsqueeze(0) if channels == 1 else values.permute(2, 0, 1)


def check_batch_bytes(count: int, shape: Sequence[int], limits: Settings) -> None:
    """Refuse a batch of images before memory is asked for it.

    Args:
        count: Images.
        shape: Shape of each: channels, height, width.
        limits: Most bytes of a batch.

    Raises:
        DataError: It has more bytes.
    """
    needed = count * prod(shape) * 4
    if needed > limits.max_batch_bytes:
        raise DataError(
            "batch-too-large",
            "The batch does not fit into memory",
            f"{count:,} images of shape {list(shape)} take {needed:,} bytes, a worker holds at most "
            f"{limits.max_batch_bytes:,} (SEATRIAL_MAX_BATCH_BYTES): lower batch_size, or make the images smaller",
            field="/batch_size",
        )


def stack_images(images: Iterable[Tensor], count: int, where: str, limits: Settings) -> Tensor:
    """Return decoded images as one float32 batch in [0, 1]; one at a time is there besides the batch.

    Args:
        images: uint8 images (channels, height, width).
        count: How many there are.
        where: What holds them, for messages.
        limits: Most bytes of the batch.

    Raises:
        DataError: They differ in size, or are too many.
    """
    batch: Tensor | None = None
    for position, image in enumerate(images):
        if batch is None:
            check_batch_bytes(count, image.shape, limits)
            batch = torch.empty((count, *image.shape), dtype=torch.float32)
        elif image.shape != batch.shape[1:]:
            height, width = image.shape[1:]
            raise DataError(
                "image-sizes-differ",
                "The images differ in size",
                f"{where} holds images of {batch.shape[2]}x{batch.shape[3]}, {height}x{width} pixels: bring all to the "
                "size the model takes",
                field="/dataset",
            )
        batch[position] = image
    return torch.zeros(0) if batch is None else batch.div_(255)
