"""Gates say whether a model may ship.

A policy says what must hold of an audit's numbers, :func:`seatrial.judging.verdict.judge` says whether it does, and
everything that shows a verdict shows that one. It needs no GPU: workers measure, verdicts are made from stored numbers.

What is promised: a model whose metric lies exactly at a rule's bound passes that rule at most 2.5 % of the time and
fails it at most 2.5 % of the time, by the luck of which examples were drawn; the rest stays ``inconclusive`` and says
how many more examples would tell. With Holm's correction the chance that any rule of a policy that blocks is decided
wrongly is at most 5 %. As far as the stored intervals hold, that is (:mod:`seatrial.statistics.bounded`): they are
judged as they are shown, and shown as they are judged (:mod:`seatrial.families.shared.settling`).

What is not: an example that is not like those the dataset was drawn from, and an attack nobody ran, are in no interval.
A check that failed, was cancelled, is in doubt or tested nothing never passes.
"""
