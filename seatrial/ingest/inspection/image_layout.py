"""What the API and the workers must read the same way: image axes in arrays, labels in folder names."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Literal

from seatrial.contracts.datasets import DatasetManifest
from seatrial.ingest.inspection.errors import ContentError, ManifestMismatchError

Layout = Literal["NCHW", "NHWC", "NHW"]

CHANNELS = (1, 3)
MAX_SIDE = 4096
IMAGE_FORMATS = ("PNG", "JPEG", "WEBP", "BMP", "PPM")
IMAGE_SUFFIXES = frozenset({".png", ".jpg", ".jpeg", ".webp", ".bmp", ".ppm", ".pgm"})
TEXT_SUFFIXES = frozenset({".txt", ".md", ".json", ".csv", ".tsv", ".yaml", ".yml", ".license", ""})
SPLITS = {
    "train": "train", "training": "train",
    "val": "validation", "valid": "validation", "validation": "validation", "dev": "validation",
    "test": "test", "testing": "test",
}  # fmt: skip
IMAGES, LABELS, CLASS_NAMES, LAYOUT = "images", "labels", "class_names", "layout"
"""Arrays an ``.npz`` is read from, unless ``manifest.columns`` names others for the first two."""


def array_layout(shape: Sequence[int], stated: str | None = None) -> Layout:
    """Return which axis of an image array is what.

    Colour channels (1 or 3 of them) stand on axis 1 or on axis 3; when both would do, axis 1 is taken, as PyTorch does,
    unless the file states its layout.

    Raises:
        ContentError: No axis can be the channels.

    >>> array_layout((100, 32, 32, 3))
    'NHWC'
    >>> array_layout((100, 3, 32, 3))
    'NCHW'
    >>> array_layout((100, 28, 28))
    'NHW'
    """
    if len(shape) == 3:
        return "NHW"
    if len(shape) != 4:
        raise ContentError(
            f"images has the shape {tuple(shape)}: it needs (n, channels, height, width), (n, height, width, "
            "channels) or (n, height, width)"
        )
    is_first, is_last = shape[1] in CHANNELS, shape[3] in CHANNELS
    if stated == "NHWC" and is_last:
        return "NHWC"
    if is_first:
        return "NCHW"
    if is_last:
        return "NHWC"
    raise ContentError(
        f"images has the shape {tuple(shape)}: neither axis 1 nor axis 3 has 1 or 3 channels; transparency must be "
        "dropped"
    )


def image_shape(shape: Sequence[int], layout: Layout) -> tuple[int, int, int]:
    """Return channels, height, width of the images in an array.

    >>> image_shape((100, 32, 30, 3), "NHWC")
    (3, 32, 30)
    """
    if layout == "NHW":
        return (1, shape[1], shape[2])
    return (shape[3], shape[1], shape[2]) if layout == "NHWC" else (shape[1], shape[2], shape[3])


@dataclass(frozen=True)
class FolderIndex:
    """An image folder, sorted: example ``i`` is ``paths[i]`` with label ``labels[i]``.

    Attributes:
        paths: Path of each image in the archive, in order of class, then path.
        labels: Class number of each image.
        names: Class name of each class number.
    """

    paths: list[str]
    labels: list[int]
    names: list[str]


def index_image_folder(paths: Sequence[str], manifest: DatasetManifest) -> FolderIndex:
    """Return which image of an archive has which label: the folder it lies in names its class.

    Classes are numbered in the sorted order of their names, or in the order of ``manifest.labels``. Above the class
    folders there may be one folder per split (``train``, ``val``, ``test``), of which the manifest's is taken.

    Raises:
        ContentError: Images outside of class folders, or nested differently.
        ManifestMismatchError: A class the manifest does not list, or no images of its split.
    """
    if not paths:
        raise ContentError("The archive holds no images: send class folders of PNG, JPEG, WebP or BMP files")
    paths = _of_split(paths, manifest.split)
    folders = {PurePosixPath(path).parent.name for path in paths}
    if manifest.labels is None:
        names = sorted(folders)
    else:
        names = manifest.labels
        unknown = sorted(folders - set(names))
        if unknown:
            raise ManifestMismatchError(
                f"The archive has the class folder {unknown[0]!r:.200}, which is not among the manifest's labels",
                field="/manifest/labels",
            )
    numbers = {name: number for number, name in enumerate(names)}
    ordered = sorted(paths, key=lambda path: (numbers[PurePosixPath(path).parent.name], path))
    return FolderIndex(ordered, [numbers[PurePosixPath(path).parent.name] for path in ordered], names)


def _of_split(paths: Sequence[str], split: str) -> list[str]:
    """Return the paths below the folder of a split, or all when there are no such folders."""
    above = {PurePosixPath(path).parts[:-2] for path in paths}
    loose = next((path for path in paths if len(PurePosixPath(path).parts) < 2), None)
    if loose is not None:
        raise ContentError(f"The image {loose!r:.200} lies in no class folder: the folder's name is its label")
    is_split = all(parts and parts[-1].lower() in SPLITS for parts in above)
    if is_split and len({parts[:-1] for parts in above}) == 1:
        wanted = {parts for parts in above if SPLITS[parts[-1].lower()] == split}
        if not wanted:
            names = ", ".join(sorted(parts[-1] for parts in above))
            raise ManifestMismatchError(
                f"The archive has images of the split {names}, the manifest says {split}", field="/manifest/split"
            )
        return [path for path in paths if PurePosixPath(path).parts[:-2] in wanted]
    if len(above) > 1:
        one, other = sorted("/".join(parts) for parts in above)[:2]
        raise ContentError(
            f"Class folders lie both in {one or '.'!r} and in {other!r}: expected class/image, or split/class/image"
        )
    return list(paths)
