"""A course: a whole class graded, and what of it is handed out and shown."""
