"""What does the system prompt of a conversation contain?"""
