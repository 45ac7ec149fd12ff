"""The suites of the track diffsynth."""
