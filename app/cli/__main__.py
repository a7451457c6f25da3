"""``python -m app.cli``: the ``seatrial`` command where its script is not on the path."""

from app.cli import main

if __name__ == "__main__":
    main(prog_name="seatrial")
