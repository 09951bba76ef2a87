"""What does each page of the studio show? A module for each place in its menu."""
