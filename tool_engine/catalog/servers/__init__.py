"""Which servers of tools do the settings of other programs name?"""
