"""Side by side with the peers: `make bench`, or the short form `make bench-quick`. Nothing here asserts a time.

plans      the table of work and methods        problems   clouds that are drawn, tables that are read
methods    all methods, by name                 ours, peer_*, loops   how each is called
measure    seconds, hard passes, peak memory    apart      the same in a process of its own, and its judgement
truth      exact optima and true gaps           record, report        what is known, as one long table and JSON
page       the tables of docs/benchmarks.md     growth     plots of cost against n, m and d
machine    what it ran on                       tune       how the settings of the stochastic peers were found
on_gpu     all that a GPU should show           online, divergences, distances, tables, scale_up, scale_out: their own
"""
