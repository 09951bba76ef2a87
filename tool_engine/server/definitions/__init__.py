"""What do definitions say over HTTP, do they hold, and who approved them?"""
