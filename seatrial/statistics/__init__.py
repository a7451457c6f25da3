"""Pure statistics: intervals, calibration, paired comparisons, ranks, and metrics of ranking.

NumPy and the standard library. :mod:`seatrial.statistics.exact` alone takes SciPy, which workers have; what publishes
its bounds (:mod:`~seatrial.statistics.estimating`, :mod:`~seatrial.statistics.paired`) is theirs, too.

A function that is undefined on its input (no examples, one class) returns None instead of a number that looks like one.
"""
