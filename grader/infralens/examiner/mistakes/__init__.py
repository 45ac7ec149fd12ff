"""The mistakes that are known, and which of them a learner has made."""
