"""Hooks for tools that keep models; none of them is needed by anything else, or imported before it is used."""
