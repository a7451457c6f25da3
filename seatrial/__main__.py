"""The ``seatrial`` command, and ``python -m seatrial`` where its script is not on the path."""

from importlib import import_module

from seatrial.floors import pin


def main() -> None:
    """Run the command line of the service's floor."""
    pin()
    import_module("app.cli").main(prog_name="seatrial")


if __name__ == "__main__":
    main()
