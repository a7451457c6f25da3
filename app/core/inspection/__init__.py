"""What bytes are, before anything parses them: magic numbers, pickles, safetensors headers, arrays, image headers.

Everything here reads streams in bounded pieces and raises only :class:`~app.core.inspection.errors.InspectionError`.
"""
