"""How do several sources give one conversation their tools, and under which names?"""
