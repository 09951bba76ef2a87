"""The vocabulary: pure data without I/O that every stage shares."""
