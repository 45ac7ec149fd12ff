"""A whole class at once: submissions found, graded by warm examiners, a result each on disk."""
