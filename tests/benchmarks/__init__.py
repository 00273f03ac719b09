"""Side by side with the peers: `make bench`, or the short form `make bench-quick`. Nothing here asserts a time.

problems   the work, seeded                     ours, peer_*   the methods        methods   all of them, by name
truth      exact optima and true gaps           measure        seconds, hard passes, peak memory of one method
apart      the same in a process of its own     report         one table, and JSON beside it
growth     cost against n, m and d              tune           how the settings of the stochastic peers were found
"""
