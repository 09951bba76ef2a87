"""What does an edit of a tool mean for those who call it?"""
