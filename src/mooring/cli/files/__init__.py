"""A file with many servers: read, compared with what there is, carried out; and written.

Owns the format (`schema`), what is wrong with a file and where (`reading`, `offsets`), what a file asks for
(`definitions`), and the difference to what there is (`difference`). Does not know how a server is described
to the daemon: that is `cli.plan`, as for `mooring run`.

    text ─reading▶ entries ─definitions▶ options ─difference▶ plan ─applying▶ the daemon
"""
