"""What `generate` takes and gives, apart from the model.

options         the names and types of its options, and errors that name the right one
    types           Python types as schemas, and what makes an object of the text
    generation      an answer
    partial         the value of JSON that is still being written
    patch           its changes, for those who have no access to it
    stream          the pieces of an answer
"""
