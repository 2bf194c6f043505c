"""Compiled loops of tree learning; imported at first use.

Every kernel releases the interpreter lock and works on a range of rows, so that a thread pool can share the rows out.
All arithmetic on records is on integers: the order and the size of the ranges cannot change an answer.
"""
