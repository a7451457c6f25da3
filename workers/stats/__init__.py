"""Pure numpy statistics: calibration, intervals, ranking metrics.

A function that is undefined on its input (no examples, one class) returns None instead of a number that looks like one.
"""
