"""Grammars compiled in separate processes, so that a slow one takes no time from the caller's process.

Read in this order:

    task       the work of a process on a specification
    worker     the process: runs as a file, and lowers its priority when a task takes long
    turns      the order of specifications, and the waiting of slow ones
    pool       WorkerCompiler: a Compiler whose submit works in such processes
"""
