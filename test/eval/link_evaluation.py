"""The module promptcache.evaluation without the rest of the package, which needs cffi."""
import os


def link_evaluation(source):
    """Makes a package in the folder `python` of the working folder."""
    os.makedirs("python/promptcache")
    with open("python/promptcache/__init__.py", "w", encoding="utf-8"):
        pass
    for name in ("evaluation.py", "__main__.py"):
        os.symlink(os.path.join(source, "bindings/python/promptcache", name),
                   os.path.join("python/promptcache", name))
