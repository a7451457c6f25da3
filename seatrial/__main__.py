"""The ``seatrial`` command, and ``python -m seatrial`` where its script is not on the path."""

import sys
from importlib import import_module

from seatrial import alive
from seatrial.floors import pin


def main() -> None:
    """Run the command line of the service's floor."""
    if sys.argv[1:] == ["health"]:
        # Asked every few seconds: the command line takes seconds to load.
        alive.main()
    pin()
    import_module("app.cli").main(prog_name="seatrial")


if __name__ == "__main__":
    main()
