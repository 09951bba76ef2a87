"""Which calls, events, sessions, tasks and approvals are kept, and where?"""
