"""Handbook and labs as a static site: pages staged from the exercises, built by Sphinx."""
