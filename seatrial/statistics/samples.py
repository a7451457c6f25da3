"""Records as the statistics see them: numpy columns of the examples that did not error."""

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray


class Sample:
    """The examples of one or more tables over the same source that did not error, as numpy columns."""

    def __init__(self, records: pa.Table) -> None:
        self.size = records.num_rows
        valid = records.filter(pa.array(~_numpy(records, "errored").astype(bool)))
        self._columns = {name: _numpy(valid, name) for name in valid.column_names}
        self.valid = valid.num_rows

    def __getitem__(self, name: str) -> NDArray[np.generic]:
        """Return a column (valid,)."""
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
    column: NDArray[np.generic] = records.column(name).to_numpy()
    return column
