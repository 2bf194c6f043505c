"""Reading tables: each cell is converted by itself, by the declared or public type of its column.

So what a record contributes is a function of that record and of public metadata, whatever the other records hold:
:mod:`.cells` converts cells, :mod:`.frames` reads tables in memory, :mod:`.csv_text` and :mod:`.files` read files.
"""
