"""Why an upload is refused.

::

    InspectionError                422
    +-- EmptyFileError             422  nothing was sent
    +-- UploadTooLargeError        413  beyond a limit the operator set
    +-- UnsupportedFormatError     415  not a format this service reads: an HTML page, a CSV table, ...
    +-- PickleRefusedError         415  a pickle, under whatever name
    +-- RemoteCodeRefusedError     422  the model wants to bring its own code
    +-- OperatorRefusedError       422  an exported program runs an operator that is not allowed
    +-- UnsafeArchiveError         422  path traversal, links, encryption, duplicates, bombs
    +-- MalformedFileError         422  truncated or inconsistent bytes
    +-- ContentError               422  well-formed bytes with wrong contents: NaN, labels out of range, ...
    +-- ManifestMismatchError      422  the file and the manifest disagree
"""

from collections.abc import Iterable
from typing import ClassVar


class InspectionError(Exception):
    """An upload that must not be stored, with the reason for the person who sent it.

    Attributes:
        code: Kebab-case name of the error, stable across versions.
        title: One line for a person.
        status: The HTTP status that fits.
        detail: What was wrong, where, and what would be right.
        field: JSON pointer to the part of the request to blame.
    """

    code: ClassVar[str] = "upload-refused"
    title: ClassVar[str] = "The upload cannot be used"
    status: ClassVar[int] = 422

    def __init__(self, detail: str, *, field: str = "/file") -> None:
        super().__init__(detail)
        self.detail = detail
        self.field = field


class EmptyFileError(InspectionError):
    """Nothing was sent."""

    code = "empty-file"
    title = "The file is empty"


class UploadTooLargeError(InspectionError):
    """The upload is beyond a limit the operator set."""

    code = "upload-too-large"
    title = "The upload is too large"
    status = 413


class UnsupportedFormatError(InspectionError):
    """The bytes are not of a format this service reads."""

    code = "unsupported-format"
    title = "This kind of file is not accepted"
    status = 415


class PickleRefusedError(InspectionError):
    """The bytes are a pickle, under whatever name."""

    code = "pickle-refused"
    title = "Pickles are not accepted"
    status = 415


class RemoteCodeRefusedError(InspectionError):
    """The model wants to bring its own code."""

    code = "remote-code-refused"
    title = "Models that bring their own code are not accepted"


class OperatorRefusedError(InspectionError):
    """An exported program runs an operator that is not allowed."""

    code = "operator-refused"
    title = "The exported program runs an operator that is not allowed"


class UnsafeArchiveError(InspectionError):
    """The archive would be dangerous to unpack."""

    code = "unsafe-archive"
    title = "The archive is not safe to unpack"


class MalformedFileError(InspectionError):
    """The bytes are truncated or contradict themselves."""

    code = "malformed-file"
    title = "The file is damaged"


class ContentError(InspectionError):
    """The bytes are well-formed and say something impossible."""

    code = "invalid-content"
    title = "The contents cannot be used"


class ManifestMismatchError(InspectionError):
    """The file and the manifest disagree."""

    code = "manifest-mismatch"
    title = "The file and the manifest disagree"


def no_column(where: str, role: str, name: str, present: Iterable[str], hint: str = "") -> ContentError:
    """Return the refusal of a table without a column it needs."""
    names = list(present)
    # A JSON key may hold half of a surrogate pair, which no answer can carry.
    has = ", ".join(names)[:300].encode(errors="replace").decode() or "nothing"
    are_pairs = role == "text" and {"premise", "hypothesis"} <= set(names)
    pairs = "; for pairs of premise and hypothesis, the task is text-pair-classification" if are_pairs else ""
    return ContentError(
        f"{where} has no column {name!r}; it has: {has}. "
        f"Under columns, name the one that holds the {role}{hint}{pairs}",
        field=f"/manifest/columns/{role}",
    )
