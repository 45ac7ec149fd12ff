"""The submission as a suite sees it: its text, the link to its process, its objects."""
