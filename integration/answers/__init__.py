"""The options and results of `generate`.

options         the names and types of its options, and errors that name the right one
    types           Python types as schemas, and the parsing of text into objects
    generation      an answer
    partial         the value of unfinished JSON
    patch           its changes, for remote clients
    stream          the pieces of an answer
"""
