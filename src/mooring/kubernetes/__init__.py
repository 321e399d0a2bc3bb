"""A server in Kubernetes: the objects that it takes, as plain values, and those as text.

Owns which objects there are and what stands in them (`objects`, `pod`, `network`), the command line of the
container (`container_words`), the file of variables (`variables_file`) and how all of it is written so that
every reader of YAML reads the same (`writing`). Everything here is pure.

Does not know how options are given, how a server is defined, what a secret looks like, nor how long a
shutdown takes: `cli.k8s` brings these together. It never holds a secret, only the names of some.
"""
