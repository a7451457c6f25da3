"""Datasets: labelled examples, inspected before they are stored."""
