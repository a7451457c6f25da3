"""Tests of tags and of the search."""
