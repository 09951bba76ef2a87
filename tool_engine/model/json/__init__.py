"""How are JSON values copied, shown and measured?"""
