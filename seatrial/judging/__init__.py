"""What a policy makes of stored numbers: plain arithmetic, which both sides may import.

:func:`seatrial.judging.verdict.judge` says whether a policy holds. The service judges audits that have ended by it; the
runtime asks of an audit that is to stop when it is decided whether a rule is still open.
"""
