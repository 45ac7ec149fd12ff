"""The suites of the track diffusers."""
