"""Pure statistics: calibration, temperature, intervals, paired comparison, ranking metrics; and the frame of figures.

A function that is undefined on its input (no examples, one class) returns None instead of a number that looks like one.
"""
