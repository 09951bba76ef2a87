"""What does an edit of a tool mean for its callers?"""
