"""Hardenings: submitted and priced, read and followed, audited in pairs and compared."""
