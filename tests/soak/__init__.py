"""Half an hour of everything at once: does anything grow, is any call lost without a reason?

    python -m tests.soak [--minutes 30]     mixed load with kills, resets, desertions and restarts
    python -m tests.soak sessions 100000    sessions that nobody ends
    python -m tests.soak calls 1000000      calls through a few sessions, with kills

Every answer is checked; every call without one must have a cause that we know, because we made it.
Memory, descriptors, threads, processes, tasks and sessions of the real command are sampled all the
time; the verdict is their growth. Samples (CSV), a picture (SVG) and what Mooring complained of are
left in `.soak`. The exit status is 1 if anything grew or was unexplained.
"""
