"""The harness of the benchmarks: cases, peers, the processes that run them in turns, and tables of what came out."""
