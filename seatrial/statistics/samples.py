"""Records as the statistics see them: numpy columns of the examples that did not error."""

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray


class Sample:
    """The examples of one or more tables over the same source that did not error, as numpy columns."""

    def __init__(self, records: pa.Table) -> None:
        self.size = records.num_rows
        errored = _numpy(records, "errored").astype(bool)
        # Without any, records are not copied.
        valid = records.filter(pa.array(~errored)) if errored.any() else records
        self._columns = {name: _numpy(valid, name) for name in valid.column_names}
        self.valid = valid.num_rows

    def __getitem__(self, name: str) -> NDArray[np.generic]:
        """Return a column (valid,); of lists of numbers, all of one length, a matrix (valid, k)."""
        return self._columns[name]

    def has(self, name: str) -> bool:
        """Tell whether there is a column of a name."""
        return name in self._columns

    def floats(self, name: str) -> NDArray[np.float64]:
        """Return a column as float64 (valid,)."""
        return self._columns[name].astype(np.float64)

    def align(self, other: "Sample", name: str) -> NDArray[np.float64]:
        """Return a column of another table for this one's examples (valid,), NaN where it has none."""
        at: Mapping[int, int] = {int(key): row for row, key in enumerate(other["example_id"])}
        values = np.append(other.floats(name), np.nan)
        return values[[at.get(int(key), -1) for key in self["example_id"]]]


def _numpy(records: pa.Table, name: str) -> NDArray[np.generic]:
    stored = records.column(name)
    if pa.types.is_list(stored.type) and (matrix := _matrix(stored)) is not None:
        return matrix
    column: NDArray[np.generic] = stored.to_numpy()
    return column


def _matrix(lists: pa.ChunkedArray) -> NDArray[np.generic] | None:
    """Return lists of numbers of one length as a matrix, where they lie in memory; None of others.

    An array for each list takes 200 bytes: of 100,000 examples and 18 columns, 360 MB.
    """
    if not len(lists):
        # A column of no rows may have no chunk.
        return None
    values = pa.concat_arrays(lists.chunks) if lists.num_chunks != 1 else lists.chunk(0)
    inner = values.type.value_type
    if values.null_count or not (pa.types.is_floating(inner) or pa.types.is_integer(inner)):
        return None
    lengths = np.diff(values.offsets.to_numpy())
    flat = values.flatten()
    if flat.null_count or not lengths[0] or (lengths != lengths[0]).any():
        return None
    matrix: NDArray[np.generic] = flat.to_numpy().reshape(len(values), -1)
    return matrix
