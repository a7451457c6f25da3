"""Tables of predictions, read in the same way by the API and by the workers.

One file may be both sides of an audit: what is true of each example (:mod:`seatrial.ingest.predictions.truths`) belongs
to the dataset, what a model answered (:mod:`seatrial.ingest.predictions.answers`) to the model. Held apart, two models'
answers to the same examples share a dataset, and everything that compares models works on them.
"""
