"""A Report as terminal text, JUnit XML and HTML. Nothing here grades; records are only read."""
