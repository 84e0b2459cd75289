"""Attention states that are computed once and reused: the Python package of promptcache."""
