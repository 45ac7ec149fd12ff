"""What changes from one release of the libraries to another, seen through every reference."""
