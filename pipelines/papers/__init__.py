"""The tables and figures of the three papers, computed again and set beside what was printed."""
