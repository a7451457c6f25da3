"""Whether an exported program and its manifest speak of the same inputs and classes, as far as the graph says."""

from seatrial.contracts.models import ModelManifest
from seatrial.ingest.exported.program import Program
from seatrial.ingest.inspection.errors import ManifestMismatchError


def check_fit(program: Program, manifest: ModelManifest, of: str = "the exported program") -> None:
    """Refuse a manifest whose input or labels are not those of the program.

    Raises:
        ManifestMismatchError: They are not; sizes that vary are left to the worker, which runs it.

    """
    stated = manifest.input_shape or []
    is_table = manifest.features is not None
    thing, sizes, place = (
        ("rows", "columns", "/manifest/features/columns")
        if is_table
        else ("images", "channels, height, width", "/manifest/input/shape")
    )
    taken = program.input_shape
    if len(taken) != len(stated) or any(size not in (None, one) for size, one in zip(taken, stated, strict=True)):
        raise ManifestMismatchError(
            f"{of} takes {thing} of shape {_told(taken)}, the manifest says {_told(stated)} ({sizes})",
            field=place,
        )
    given, labels = program.output_shape, len(manifest.labels or ())
    if len(given) != 1 or given[0] not in (None, labels):
        raise ManifestMismatchError(
            f"{of} gives {_told(given)} values per example, the manifest names {labels} labels",
            field="/manifest/labels",
        )
    if not program.input_type.startswith(("float", "bfloat")):
        raise ManifestMismatchError(
            f"{of} takes {thing} of type {program.input_type}: export it with an example in "
            f"floating point, `torch.rand(2, {sizes})`",
            field="/manifest/architecture",
        )


def _told(sizes: list[int] | tuple[int | None, ...]) -> str:
    return f"[{', '.join('any' if size is None else str(size) for size in sizes)}]"
