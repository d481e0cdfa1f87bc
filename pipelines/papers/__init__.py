"""The tables and figures of the three papers, computed again and compared with what was printed."""
