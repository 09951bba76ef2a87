"""Who may ask for what over HTTP?"""
