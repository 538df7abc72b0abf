"""Grammars compiled in processes of their own, so that a slow one takes no time from the caller's process.

Read in this order:

    task       what a process does with a specification
    worker     the process: runs as a file, and lowers its priority when a task takes long
    turns      whose specification comes next, and which has to wait because it takes long
    pool       WorkerCompiler: a Compiler whose submit works in such processes
"""
