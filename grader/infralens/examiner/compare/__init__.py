"""What a suite compares: fresh inputs, references, tolerances, and the words for a difference."""
