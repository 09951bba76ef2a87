"""The pages of the studio, a module for each place in its menu."""
