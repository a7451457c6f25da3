"""The HTTP side of Seatrial: resources, verdicts and reports. Nothing here imports torch."""
