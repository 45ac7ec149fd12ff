"""What a submission takes of memory, and how much it may."""
