"""Errors of the package's model of transformers."""


class Refused(ValueError):
    """The model cannot be used with promptcache: the text says why."""


class Cancelled(Exception):
    """A function of the application wants the work to end."""
