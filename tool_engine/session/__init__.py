"""What may one conversation use, remember and spend?"""
