"""What does the engine do, shown on real tools in ten seconds?"""
