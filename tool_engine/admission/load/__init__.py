"""What does a bucket learn from its own calls, and what does it do with it?"""
