"""What bytes are, before anything parses them: magic numbers, pickles, safetensors headers, arrays, image headers.

Everything here reads streams in bounded pieces and raises only
:class:`~seatrial.ingest.inspection.errors.InspectionError`.
"""
