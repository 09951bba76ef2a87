"""What gives tools to a conversation or a protocol: parts of engines, renamed and combined?"""
