"""The suite of lab 06, with the small model folder that it loads and the code it lends."""
