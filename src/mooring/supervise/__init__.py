"""One workload kept as desired.

Owns the states of a workload and the table of its transitions, the restart policy, and
the waiting that back-off means for whoever needs an instance.

Does not know how an instance is made or stopped, nor who talks to it.
"""
