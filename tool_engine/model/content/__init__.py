"""What may a result hold beside data?"""
