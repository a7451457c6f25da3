"""Language resources of the text attacks: what is shipped, what an operator may add, and where it is.

SOURCES.md says where each comes from and under which licence.
"""
