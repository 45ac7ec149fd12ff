"""The candidate process: loads one submission, answers calls, limits itself. It decides nothing."""
