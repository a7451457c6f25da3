"""What may stand in a Hugging Face folder, for the API that stores it and for the worker that loads it.

Nothing here imports torch or transformers. Both sides judge by these functions, so that they cannot disagree: the API
refuses what :func:`~seatrial.ingest.huggingface.folders.clean_document` refuses, and a worker gives transformers
nothing but what the same function returned.
"""
