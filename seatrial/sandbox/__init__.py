"""Child processes for what reads or runs other people's files: limited in memory and time, and killable.

::

    API or worker                        the process that decides, writes the database and holds the secrets
    +-- zygote                           imports libraries, never a file of anybody's; forks on request
        +-- child, child, ...            reads and runs what was uploaded: rlimits, no secrets, no database

A child costs a fork (some 10 ms) and not the seconds its imports take. It asks its parent for the little it needs over
a socket; whatever happens to it, memory used up, a crash of a library, a loop without an end, the parent goes on.
"""
